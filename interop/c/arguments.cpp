#include "interop/c/arguments.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "plait/collective_table.h"
#include "plait/version.hpp"

namespace plait::c {
namespace {

thread_local std::string last_sentence;
thread_local const char* last_error = "";

constexpr plait_status status_of(ErrorCode code) {
  return static_cast<plait_status>(static_cast<int>(code) + 1);
}
constexpr int last_code = static_cast<int>(ErrorCode::bootstrap);

template <class Cpp, class C>
constexpr bool same(Cpp cpp, C c) {
  return static_cast<int>(cpp) == static_cast<int>(c);
}
// clang-format off
#define SAME(CPP, C) static_assert(status_of(ErrorCode::CPP) == PLAIT_ERROR_##C);
SAME(invalid_argument, INVALID_ARGUMENT) SAME(unsupported, UNSUPPORTED) SAME(mismatch, MISMATCH)
SAME(no_peer_access, NO_PEER_ACCESS) SAME(out_of_memory, OUT_OF_MEMORY) SAME(timeout, TIMEOUT)
SAME(aborted, ABORTED) SAME(rank_lost, RANK_LOST) SAME(backend, BACKEND) SAME(bootstrap, BOOTSTRAP)
#undef SAME
#define SAME(CPP, C) static_assert(same(DataType::CPP, PLAIT_##C));
SAME(i8, I8) SAME(u8, U8) SAME(i32, I32) SAME(u32, U32) SAME(i64, I64) SAME(u64, U64)
SAME(f16, F16) SAME(bf16, BF16) SAME(f8e4m3, F8E4M3) SAME(f8e5m2, F8E5M2) SAME(f32, F32)
SAME(f64, F64) SAME(boolean, BOOL) SAME(i16, I16) SAME(u16, U16) SAME(complex_f32, COMPLEX_F32)
SAME(complex_f64, COMPLEX_F64) SAME(f32_i32, F32_I32) SAME(f64_i32, F64_I32)
SAME(i32_i32, I32_I32) SAME(i64_i32, I64_I32)
#undef SAME
#define SAME(CPP, C) static_assert(same(ReduceOp::CPP, PLAIT_##C));
SAME(sum, SUM) SAME(prod, PROD) SAME(min, MIN) SAME(max, MAX) SAME(avg, AVG)
SAME(premul_sum, PREMUL_SUM) SAME(band, BAND) SAME(bor, BOR) SAME(bxor, BXOR) SAME(land, LAND)
SAME(lor, LOR) SAME(lxor, LXOR) SAME(minloc, MINLOC) SAME(maxloc, MAXLOC)
#undef SAME
#define SAME(CPP, C) static_assert(same(BackendKind::CPP, PLAIT_BACKEND_##C));
SAME(host, HOST) SAME(cuda, CUDA) SAME(hip, HIP)
#undef SAME
static_assert(data_type_count == PLAIT_I64_I32 + 1, "a data type is missing in plait.h");
static_assert(reduce_op_count == PLAIT_MAXLOC + 1, "an operation is missing in plait.h");
// clang-format on
#define PLAIT_SAME(NAME, ENUMERATOR, ...) static_assert(same(Collective::NAME, PLAIT_##ENUMERATOR));
PLAIT_COLLECTIVES(PLAIT_SAME, PLAIT_SAME)
#undef PLAIT_SAME
static_assert(collective_count == PLAIT_EXSCAN + 1, "a collective is missing in plait.h");
static_assert(proc_null == PLAIT_PROC_NULL);

/// A number of blocks or threads. Languages without unsigned numbers may pass a negative one.
unsigned checked_extent(Where where, unsigned value, const char* name) {
  if (static_cast<int>(value) < 0)
    refuse(where, fmt::format("{} is {}: it is 0 for the default, or more", name,
                              static_cast<int>(value)));
  return value;
}

/// `value` as an enum of C++ with the values 0 to `count` - 1.
template <class Cpp, class C>
Cpp checked(Where where, C value, int count, const char* what) {
  const auto number = static_cast<int>(value);
  if (number < 0 || number >= count)
    refuse(where, fmt::format("{} is no {}: they are 0 to {}", number, what, count - 1));
  return static_cast<Cpp>(number);
}

}  // namespace

plait_status fail(plait_status status, std::string_view sentence) noexcept {
  try {
    last_sentence = sentence;
    last_error = last_sentence.c_str();
  } catch (...) {
    last_error = "there is no host memory for this error's sentence";
  }
  return status;
}

plait_status fail(const Error& error) noexcept {
  return fail(status_of(error.code()), error.what());
}

void refuse(Where where, const std::string& why) {
  const std::string rank = where.rank < 0 ? "" : fmt::format("rank {}: ", where.rank);
  throw WrongArgument(ErrorCode::invalid_argument, fmt::format("{}: {}{}", where.call, rank, why));
}

void check_size(Where where, const char* structure, std::size_t size, std::size_t known) {
  if (size >= sizeof(std::size_t) && size <= known) return;
  refuse(where,
         fmt::format("{} has size {}, and Plait " PLAIT_VERSION " knows {} to {}: {}", structure,
                     size, sizeof(std::size_t), known,
                     size > known ? "it is of a later version" : "begin with its PLAIT_..._INIT"));
}

DataType data_type(Where where, plait_data_type type) {
  return checked<DataType>(where, type, data_type_count, "data type");
}
ReduceOp reduce_op(Where where, plait_reduce_op op) {
  return checked<ReduceOp>(where, op, reduce_op_count, "operation");
}

CommunicatorOptions communicator_options(Where where, const plait_config* config) {
  CommunicatorOptions options;
  if (config == nullptr) return options;
  check_size(where, "plait_config", config->size, sizeof(plait_config));
  const plait_backend backend = get(*config, &plait_config::backend, PLAIT_BACKEND_CHOSEN);
  if (backend != PLAIT_BACKEND_CHOSEN)
    options.backend = checked<BackendKind>(where, backend, 3, "backend");
  options.device = get(*config, &plait_config::device, -1);
  if (options.device < -1)
    refuse(where, fmt::format("{} is no device: they are numbered from 0, and -1 is the default",
                              options.device));
  if (const std::size_t bytes = get(*config, &plait_config::scratch_bytes, std::size_t{0});
      bytes != 0)
    options.scratch_bytes = bytes;
  const int reproducible = get(*config, &plait_config::reproducible, 0);
  options.reproducible = reproducible != 0;
  options.reproducible_tree = reproducible == 2;
  const double seconds = get(*config, &plait_config::timeout_seconds, -1.0);
  if (seconds == -1) return options;
  constexpr double most = 9e9;  // fits in 64 bits of nanoseconds: about 285 years
  if (!(seconds >= 0 && seconds <= most))
    refuse(where, fmt::format("timeout_seconds is {}: it is -1 or 0 to {}", seconds, most));
  options.timeout =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  return options;
}

CallOptions call_options(Where where, const plait_call_options* options) {
  if (options == nullptr) return {};
  check_size(where, "plait_call_options", options->size, sizeof(plait_call_options));
  const char* algorithm =
      get<plait_call_options, const char*>(*options, &plait_call_options::algorithm, nullptr);
  return {
      .algorithm = algorithm == nullptr ? "" : algorithm,
      .scale = get(*options, &plait_call_options::scale, 1.0),
      .blocks = checked_extent(where, get(*options, &plait_call_options::blocks, 0u), "blocks"),
      .threads = checked_extent(where, get(*options, &plait_call_options::threads, 0u), "threads"),
      .symmetric = get(*options, &plait_call_options::symmetric, 0) != 0,
      .blocking = get(*options, &plait_call_options::blocking, 0) != 0};
}

Call described_call(Where where, const plait_call* description) {
  const plait_call& given = needed(where, description, "call");
  check_size(where, "plait_call", given.size, sizeof(plait_call));
  return {.collective =
              checked<Collective>(where, get(given, &plait_call::collective, PLAIT_ALL_REDUCE),
                                  collective_count, "collective"),
          .type = data_type(where, get(given, &plait_call::type, PLAIT_F32)),
          .op = reduce_op(where, get(given, &plait_call::op, PLAIT_SUM)),
          .count = get(given, &plait_call::count, std::size_t{0}),
          .symmetric = get(given, &plait_call::symmetric, 0) != 0,
          .in_place = get(given, &plait_call::in_place, 0) != 0,
          .root = get(given, &plait_call::root, 0)};
}

HostOperation host_operation(Where where, const plait_host_operation* op) {
  const plait_host_operation& given = needed(where, op, "op");
  check_size(where, "plait_host_operation", given.size, sizeof(plait_host_operation));
  using Given = plait_host_operation;
  return {.function = get<Given, plait_host_function>(given, &Given::function, nullptr),
          .element_bytes = get(given, &Given::element_bytes, std::size_t{0}),
          .alignment = get(given, &Given::alignment, std::size_t{1}),
          .context = get<Given, void*>(given, &Given::context, nullptr)};
}

StreamRef stream_ref(plait_stream_t stream) { return {static_cast<CUstream_st*>(stream)}; }

void check_place(Where where, const char* text, std::size_t capacity) {
  if (text == nullptr && capacity != 0)
    refuse(where, fmt::format("text is NULL, and its capacity {}", capacity));
}

void write_text(const std::string& from, char* text, std::size_t capacity, std::size_t* length) {
  if (length != nullptr) *length = from.size();
  if (capacity == 0) return;
  const std::size_t fits = std::min(from.size(), capacity - 1);
  std::memcpy(text, from.data(), fits);
  text[fits] = '\0';
}

plait_status create(const char* call, const plait_config* config, plait_comm* comm,
                    const std::function<Communicator(const CommunicatorOptions&)>& make) noexcept {
  return guarded(call, [&] {
    plait_comm& result = needed(call, comm, "comm");
    result = handle_of<plait_comm>(Communicators::instance().insert(
        std::make_unique<Owner>(Owner{make(communicator_options(call, config))})));
  });
}

}  // namespace plait::c

using plait::c::last_code;

const char* plait_last_error(void) { return plait::c::last_error; }

const char* plait_status_name(plait_status status) {
  const int code = static_cast<int>(status) - 1;
  if (status == PLAIT_SUCCESS) return "success";
  if (status == PLAIT_ERROR_INTERNAL) return "internal";
  // A string_view of a literal: its data end with a zero.
  return code < 0 || code > last_code ? "invalid"
                                      : plait::name_of(static_cast<plait::ErrorCode>(code)).data();
}

int plait_version(void) { return PLAIT_VERSION_NUMBER; }
