// The C half of fused_norm.py: all-reduce, residual and RMSNorm as one kernel, in bf16 or f32.
// Functions return the text of an error, or null.
#include <exception>
#include <memory>
#include <plait/plait.hpp>
#include <plait/row_functions.hpp>
#include <plait/rows.hpp>
#include <string>

namespace {

template <class F>
const char* text_of_error(const F& work) {
  thread_local std::string text;
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

template <class T>
void norm(plait::Communicator& comm, const void* partial, void* residual, const void* weight,
          void* out, std::size_t rows, std::size_t columns, float epsilon, CUstream_st* stream) {
  plait::all_reduce_rows(comm, stream, static_cast<const T*>(partial), rows, columns,
                         plait::ResidualRmsNorm<T>{.residual = static_cast<T*>(residual),
                                                   .weight = static_cast<const T*>(weight),
                                                   .residual_out = static_cast<T*>(residual),
                                                   .out = static_cast<T*>(out),
                                                   .epsilon = epsilon});
}

}  // namespace

extern "C" {

const char* fused_norm_open(void** comm) {
  return text_of_error([&] { *comm = new plait::Communicator(plait::make_world_communicator()); });
}
/// Behind all calls.
const char* fused_norm_close(void* comm) {
  return text_of_error([&] {
    const std::unique_ptr<plait::Communicator> owned(static_cast<plait::Communicator*>(comm));
    owned->synchronize();
  });
}

const char* fused_norm(void* comm, int is_bf16, const void* partial, void* residual,
                       const void* weight, void* out, std::size_t rows, std::size_t columns,
                       float epsilon, CUstream_st* stream) {
  return text_of_error([&] {
    (is_bf16 ? norm<plait::bf16> : norm<float>)(*static_cast<plait::Communicator*>(comm), partial,
                                                residual, weight, out, rows, columns, epsilon,
                                                stream);
  });
}

const char* plain_all_reduce(void* comm, int is_bf16, const void* from, void* to, std::size_t count,
                             CUstream_st* stream) {
  return text_of_error([&] {
    static_cast<plait::Communicator*>(comm)->all_reduce(
        from, to, count, is_bf16 ? plait::DataType::bf16 : plait::DataType::f32,
        plait::ReduceOp::sum, stream);
  });
}

}  // extern "C"
