#include "support/zoo.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <stdexcept>

#include "core/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

template <class T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
auto printable(T x) {
  if constexpr (std::is_integral_v<T>) return +x;
  else return static_cast<double>(widen(x));
}

/// Runs one case on one rank.
template <class T>
class Run {
 public:
  Run(Communicator& comm, Arena& arena, const Case& c)
      : comm_(comm),
        case_(c),
        send_(c.symmetric ? arena.symmetric_send : arena.send),
        recv_(c.in_place    ? send_
              : c.symmetric ? arena.symmetric_recv
                            : arena.recv) {}

  bool operator()(StreamRef stream) {
    prepare();
    send_.upload(stream);
    if (!case_.in_place) recv_.upload(stream);
    const std::string refusal = call(stream);
    send_.download(stream);
    if (!case_.in_place) recv_.download(stream);
    comm_.synchronize(stream);
    check_input(refusal.empty());
    if (refusal.empty()) check_result();
    else check_refusal(refusal);
    return good_;
  }

 private:
  std::size_t bytes() const { return case_.count * sizeof(T); }
  T input(int rank, std::size_t i) const { return element<T>(case_.seed, rank, i, case_.op); }

  void prepare() {
    const std::size_t shift = case_.symmetric ? 0 : static_cast<std::size_t>(comm_.rank()) % 3;
    if (!case_.in_place) recv_.place((case_.recv_offset + 2 * shift) * sizeof(T), bytes());
    send_.place((case_.send_offset + shift) * sizeof(T), bytes());
    for (std::size_t i = 0; i < case_.count; ++i) {
      const T x = input(comm_.rank(), i);
      std::memcpy(send_.image() + i * sizeof(T), &x, sizeof(T));
    }
  }

  std::string call(StreamRef stream) {
    try {
      comm_.all_reduce(send_.device(), recv_.device(), case_.count, case_.type, case_.op, stream, case_.options());
      if (!is_served(comm_, case_)) fail("was enqueued, though supports() refuses it");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported || is_served(comm_, case_))
        throw std::runtime_error(fmt::format("{}: {} ({})", case_.describe(), error.what(), name_of(error.code())));
      return error.what();
    }
    return {};
  }

  void check_input(bool called) {
    if (const std::string damage = send_.damage(); !damage.empty()) fail("send: " + damage);
    if (case_.in_place && called) return;
    for (std::size_t i = 0; i < case_.count; ++i) {
      const T x = load<T>(send_.image(), i), wanted = input(comm_.rank(), i);
      if (std::memcmp(&x, &wanted, sizeof(T)) != 0) return fail(fmt::format("the input was changed at {}", i));
    }
  }

  void check_refusal(const std::string& refusal) {
    if (!case_.in_place && !recv_.untouched()) fail("was refused, but wrote");
    if (refusal.find(case_.algorithm) == std::string::npos) fail("the refusal does not name the algorithm: " + refusal);
    if (!same_on_all_ranks(comm_, refusal.data(), refusal.size())) fail("ranks refuse with different messages: " + refusal);
  }

  void check_result() {
    if (const std::string damage = recv_.damage(); !damage.empty()) fail("recv: " + damage);
    const double allowed = tolerance<T>(case_.op, comm_.size());
    for (std::size_t i = 0; i < case_.count; ++i) {
      const T got = load<T>(recv_.image(), i);
      const auto wanted = expected<T>(case_.seed, comm_.size(), i, case_.op, case_.scale);
      bool right = false;
      if constexpr (std::is_integral_v<T>) right = got == wanted;
      else right = std::abs(static_cast<double>(widen(got)) - wanted) <= allowed;
      if (!right) {
        fail(fmt::format("element {} is {} instead of {}", i, printable(got), wanted));
        break;
      }
    }
    if (!same_on_all_ranks(comm_, recv_.image(), bytes())) fail("ranks have different bits");
  }

  void fail(const std::string& what) {
    good_ = false;
    report(comm_, case_.describe() + ": " + what);
  }

  Communicator& comm_;
  const Case& case_;
  DeviceArray &send_, &recv_;
  bool good_ = true;
};

}  // namespace

std::string Case::describe() const {
  return fmt::format("{}: {} x {}, {}{}, {}, {} memory, offsets {} and {}, seed {}{}", algorithm.empty() ? "chosen" : algorithm, count,
                     name_of(type), name_of(op), scale == 1 ? "" : fmt::format(" (scale {})", scale),
                     in_place ? "in place" : "out of place", symmetric ? "symmetric" : "ordinary", send_offset, recv_offset, seed,
                     blocks + threads == 0 ? "" : fmt::format(", {} blocks of {} threads", blocks, threads));
}

bool is_served(const Communicator& comm, const Case& c) {
  if (c.algorithm.empty() || c.count == 0) return true;
  const Call call{
      .type = c.type, .op = c.op, .count = c.count, .symmetric = c.symmetric, .in_place = c.symmetric && c.in_place, .scale = c.scale};
  const std::string line = "  " + c.algorithm + " ";
  const std::string text = comm.explain(call);  // lists all algorithms, each with an estimate or the reason why not
  const auto start = text.find('\n' + line);
  if (start == std::string::npos) throw std::runtime_error("explain() does not list " + c.algorithm + ":\n" + text);
  const auto end = text.find('\n', start + 1);
  return text.substr(start, end - start).find(" no: ") == std::string::npos;
}

bool check(Communicator& comm, Arena& arena, const Case& c, StreamRef stream) {
  return dispatch(c.type, [&]<class T>() { return Run<T>(comm, arena, c)(stream); });
}

std::vector<std::size_t> odd_counts() { return {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1024, 4099}; }

std::vector<std::string> all_reduce_algorithms() {
  // On a thread of its own: opening a device makes it the thread's current one, and this may be asked in the middle of a rank's work.
  static const DeviceFacts facts = std::async(std::launch::async, [] {
                                     const auto backend = open_backend(target(), 0);
                                     if (environment_integer("PLAIT_DISABLE_P2P", 0, 0, 1) == 1) backend->use_host_memory();
                                     return backend->info().facts;
                                   }).get();
  Topology topology{facts};
  topology.backend = target();
  topology.ranks = 2;
  Call easiest;
  easiest.count = 1;
  easiest.symmetric = true;
  std::vector<std::string> names;
  for (const auto& algorithm : Registry::instance().all())
    if (algorithm->collective() == Collective::all_reduce && algorithm->supports(easiest, topology)) names.emplace_back(algorithm->name());
  return names;
}

std::uint64_t digest(const void* data, std::size_t bytes) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < bytes; ++i) value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  return value;
}

bool same_on_all_ranks(Communicator& comm, const void* data, std::size_t bytes) {
  const auto all = comm.bootstrap().all_gather(digest(data, bytes));
  return std::all_of(all.begin(), all.end(), [&](std::uint64_t other) { return other == all[0]; });
}

void report(const Communicator& comm, const std::string& what) {
  static std::atomic<int> reported = 0;
  ADD_FAILURE() << "rank " << comm.rank() << " of " << comm.size() << ": " << what;
  if (++reported > 40) throw std::runtime_error("too many failures, see above");
}

namespace {

/// Variants of memory and place, each with its own misalignment.
std::vector<Case> variants(const Case& base) {
  std::vector<Case> cases;
  for (const bool symmetric : {false, true})
    for (const bool in_place : {false, true}) {
      Case c = base;
      c.symmetric = symmetric;
      c.in_place = in_place;
      c.seed = hash(base.seed, cases.size(), base.count);
      c.send_offset = c.seed % 3;  // aligned, and off by one or two elements
      c.recv_offset = (c.seed >> 8) % 3;
      cases.push_back(c);
    }
  return cases;
}

}  // namespace

void check_all_types_and_operations(Communicator& comm, Arena& arena, const std::string& algorithm,
                                    const std::vector<std::size_t>& counts) {
  for (int type = 0; type < data_type_count; ++type)
    for (int op = 0; op < reduce_op_count; ++op) {
      Case base{.algorithm = algorithm, .type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)};
      const bool scaled = base.op == ReduceOp::premul_sum;
      if (scaled && !is_float(base.type)) continue;  // refused by the call itself: error_test
      for (const std::size_t count : counts)
        for (const double scale : scaled ? std::vector{0.5, 2.0} : std::vector{1.0}) {
          base.count = count;
          base.scale = scale;
          base.seed = hash(static_cast<unsigned>(type), static_cast<unsigned>(op), count);
          for (const Case& c : variants(base)) check(comm, arena, c);
        }
    }
}

void check_all_counts(Communicator& comm, Arena& arena, const std::string& algorithm, const std::vector<DataType>& types) {
  for (const DataType type : types)
    for (const std::size_t count : odd_counts())
      for (const Case& c : variants({.algorithm = algorithm, .type = type, .count = count, .seed = 77})) check(comm, arena, c);
}

void check_large(Communicator& comm, Arena& arena, const std::string& algorithm, std::size_t bytes) {
  check(comm, arena, {.algorithm = algorithm, .type = DataType::u8, .count = bytes / 5, .symmetric = true, .send_offset = 1, .seed = 98});
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    const auto cases = variants({.algorithm = algorithm, .type = type, .count = bytes / size_of(type) + 1, .seed = 99});
    check(comm, arena, cases[1]);  // ordinary, in place
    check(comm, arena, cases[2]);  // symmetric, out of place
  }
}

void check_launch_shapes(Communicator& comm, Arena& arena, const std::string& algorithm) {
  for (const unsigned blocks : {1u, 2u, 3u, 5u})
    for (const unsigned threads : {1u, 2u, 3u, 4u})
      for (const std::size_t count : {1u, 33u, 4099u})
        for (const Case& c :
             variants({.algorithm = algorithm, .type = DataType::i32, .count = count, .blocks = blocks, .threads = threads, .seed = 5}))
          check(comm, arena, c);
}

}  // namespace plait::test
