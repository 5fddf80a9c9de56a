// Shared by the files of fault_ranks: a rank that makes calls and prints what became of them, and
// the faults.
#pragma once
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "plait/mpi.hpp"
#include "plait/plait.hpp"

namespace plait::test {

/// The rank that meets with the fault.
inline int victim = 1;

void say(int rank, const std::string& what);

/// The outcome of a call: "no error", or the code and the text.
template <class Call>
std::string outcome(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
  return "no error";
}

class Member {
 public:
  Member(std::chrono::nanoseconds timeout, std::string algorithm)
      : comm_(make_communicator(MPI_COMM_WORLD, {.backend = {}, .timeout = timeout})),
        x_(comm_.allocate<float>(1000)),
        algorithm_(std::move(algorithm)) {}

  Communicator& comm() { return comm_; }
  int rank() const { return comm_.rank(); }
  /// A long one: no rank is through when it returns.
  void call(std::span<float> data) {
    if (algorithm_ == "chain")
      comm_.broadcast(std::span<const float>(data), data, victim, {}, {.algorithm = algorithm_});
    else
      comm_.all_reduce(std::span<const float>(data), data, ReduceOp::sum, {},
                       {.algorithm = algorithm_});
  }
  bool is_victim() const { return rank() == victim; }
  /// By `one_sided`: puts to the other ranks, and waits for theirs.
  void reduce() {
    if (algorithm_ == "one_sided") return exchange();
    comm_.all_reduce(x_.data(), x_.data(), x_.size(), DataType::f32, ReduceOp::sum, {},
                     {.algorithm = algorithm_});
  }
  /// Ten calls that work, and all ranks have made them.
  void begin() {
    for (int i = 0; i < 10; ++i) reduce();
    comm_.synchronize();
    comm_.bootstrap().barrier();
  }
  void report(const std::string& what) const { say(rank(), what); }

 private:
  void exchange() {
    const std::size_t bytes = 100 * sizeof(float);
    for (int peer = 0; peer < comm_.size(); ++peer)
      if (peer != rank())
        comm_.put(x_.window(), peer, bytes * static_cast<std::size_t>(rank()), x_.data() + 900,
                  bytes, true);
    for (int peer = 0; peer < comm_.size(); ++peer)
      if (peer != rank()) comm_.wait_signal(peer);
  }

  Communicator comm_;
  Buffer<float> x_;
  std::string algorithm_;
};

// Each is a mode of fault_ranks, described there.
void killed(const std::string& algorithm, bool all);
void gone();
void exits();
void aborted(bool checked);
void creates();
void stopped(const std::string& algorithm, bool late);
void stopped_inside(const std::string& algorithm);
void differs(const std::string& algorithm);
void refused(const std::string& algorithm);
void growing(const std::string& how);
void forks();
void descriptors();
void memory();
void threads();
void unmapped(const std::string& algorithm);
void main_ended();
int setup(const std::string& how, const std::string& where, unsigned number);

}  // namespace plait::test
