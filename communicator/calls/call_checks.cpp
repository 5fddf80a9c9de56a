#include "communicator/calls/call_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "algorithms/contract/collectives.hpp"
#include "communicator/fault/call_log.hpp"
#include "core/text.hpp"
#include "plait/communicator.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

[[noreturn]] void refuse(std::string_view what, int rank, const std::string& why,
                         ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, fmt::format("{}: rank {}: {}", what, rank, why));
}
[[noreturn]] void refuse(const Call& call, int rank, const std::string& why,
                         ErrorCode code = ErrorCode::invalid_argument) {
  refuse(name_of(call.collective), rank, why, code);
}

void check_pointer(std::string_view what, const Call& call, const void* pointer, const char* name,
                   int rank) {
  if (pointer == nullptr)
    refuse(what, rank, fmt::format("{} is null, with count {}", name, call.count));
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment_of(call.type) != 0)
    refuse(what, rank,
           fmt::format("{} = {} is not aligned to the {} bytes of {}", name, pointer,
                       alignment_of(call.type), name_of(call.type)));
}

void check_type(std::string_view what, DataType type, int rank) {
  if (!is_valid(type))
    refuse(what, rank, fmt::format("{} is no data type", static_cast<int>(type)));
}

/// Kernels compute byte offsets of up to twice the message. No memory is as large as a quarter of
/// the address space, so that is the limit.
void check_count(std::string_view what, const Call& call, int rank) {
  // So few elements don't overflow with any number of ranks, and need no division.
  constexpr std::size_t small = std::size_t{1} << 28;
  if (call.count < small) return;
  if (call.count > std::numeric_limits<std::size_t>::max() / 4 / size_of(call.type) /
                       static_cast<unsigned>(call.parts))
    refuse(what, rank, fmt::format("count {} of {} overflows", call.count, name_of(call.type)));
}

}  // namespace

Call described(const Call& call, const CallOptions& options, int rank, int ranks) {
  if (!is_valid(call.collective))
    throw Error(ErrorCode::invalid_argument, fmt::format("rank {}: {} is no collective", rank,
                                                         static_cast<int>(call.collective)));
  Call wanted = call;
  wanted.symmetric = wanted.in_place = false;
  if (wanted.scale == 1) wanted.scale = options.scale;
  if (!facts_of(call.collective).reduces) wanted.op = ReduceOp::sum, wanted.scale = 1;
  if (!facts_of(call.collective).rooted) wanted.root = 0;
  if (call.collective == Collective::barrier) wanted.type = DataType::u8, wanted.count = 0;
  wanted.parts = parts_of(call.collective, ranks);
  return wanted;
}

void check_options(std::string_view what, const CallOptions& options, int rank) {
  if (options.symmetric && what != name_of(Collective::send_recv))
    refuse(what, rank,
           "the option `symmetric` is for send_recv, which says where the receiver's buffer lies");
}

void check_facts(const Call& call, const CallOptions& options, int rank, int ranks) {
  const std::string_view what = name_of(call.collective);
  check_options(what, options, rank);
  check_type(what, call.type, rank);
  if (!is_valid(call.op))
    refuse(call, rank, fmt::format("{} is no operation", static_cast<int>(call.op)));
  if (facts_of(call.collective).reduces && !is_reduced(call.type, call.op))
    refuse(call, rank,
           fmt::format("{} needs {}, not {}", name_of(call.op), needs(call.op), name_of(call.type)),
           ErrorCode::unsupported);
  if (call.op == ReduceOp::avg && is_scan(call.collective))
    refuse(call, rank, "avg would divide by another number on each rank: pass sum, and divide",
           ErrorCode::unsupported);
  if (call.op == ReduceOp::premul_sum && options.scale != 1 &&
      std::islessgreater(options.scale, call.scale))
    refuse(call, rank,
           fmt::format("scale {} of the call and {} of the options: pass one of them", call.scale,
                       options.scale));
  if (facts_of(call.collective).rooted && (call.root < 0 || call.root >= ranks))
    refuse(call, rank, fmt::format("root {} is none of the ranks 0 to {}", call.root, ranks - 1));
  check_count(what, call, rank);
}

void check_call(const Call& call, const CallOptions& options, const Buffers& buffers, int rank,
                int ranks) {
  check_facts(call, options, rank, ranks);
  if (call.count == 0) return;
  const std::string_view what = name_of(call.collective);
  const CollectiveFacts& facts = facts_of(call.collective);
  const bool sends = has(facts.send, call, rank), receives = has(facts.recv, call, rank);
  if (sends) check_pointer(what, call, buffers.send, "send", rank);
  if (receives) check_pointer(what, call, buffers.recv, "recv", rank);
  if (!sends || !receives) return;
  const auto send = reinterpret_cast<std::uintptr_t>(buffers.send),
             recv = reinterpret_cast<std::uintptr_t>(buffers.recv);
  const bool overlap = send < recv + recv_bytes(call) && recv < send + send_bytes(call);
  const std::ptrdiff_t in_place = in_place_distance(call, rank);
  if (!overlap || recv - send == static_cast<std::uintptr_t>(in_place)) return;
  refuse(call, rank,
         fmt::format("send = {}, {} bytes, and recv = {}, {} bytes, overlap: pass disjoint "
                     "buffers, or in place {}",
                     buffers.send, send_bytes(call), buffers.recv, recv_bytes(call),
                     facts.send.size == facts.recv.size ? "the same"
                     : facts.send.size == BufferFacts::Size::one_per_rank
                         ? fmt::format("recv as block {} of send", rank)
                         : fmt::format("send as block {} of recv", rank)));
}

void check_message(const Call& call, const MessageEnd& end, int rank, int ranks,
                   std::string_view what) {
  check_type(what, call.type, rank);
  if (end.peer == proc_null) return;
  if (end.peer < 0 || end.peer >= ranks)
    refuse(what, rank,
           fmt::format(
               "peer {} is none of the ranks 0 to {}{}", end.peer, ranks - 1,
               end.peer == -1 ? " (if MPI named it: peer_from_mpi translates MPI_PROC_NULL)" : ""));
  if (call.count == 0) return;
  check_count(what, call, rank);
  check_pointer(what, call, end.buffer, end.sends ? "send" : "recv", rank);
}

std::optional<Error> check_extents(Collective collective, std::size_t send, std::size_t recv,
                                   std::size_t count, int rank, int ranks, int root) {
  const CollectiveFacts& facts = facts_of(collective);
  const auto wanted = [&](const BufferFacts& buffer) {
    return buffer.size == BufferFacts::Size::one_per_rank ? count * static_cast<std::size_t>(ranks)
                                                          : count;
  };
  const auto fits = [&](const BufferFacts& buffer, std::size_t extent) {
    return extent == wanted(buffer) || (buffer.root_only && root != rank);
  };
  if (fits(facts.send, send) && fits(facts.recv, recv)) return std::nullopt;
  return Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "{}: rank {}: send has {} elements, recv {}: with blocks of {} they must be {} and {}",
          name_of(collective), rank, send, recv, count, wanted(facts.send), wanted(facts.recv)));
}

namespace {

/// What a rank calls, as text, and the order of its elements.
struct Wanted {
  std::array<char, 256> text{};
  ArrayOrder order{};
  std::string describe() const { return fmt::format("{}{}", text.data(), order_text(order)); }
  bool agrees_with(const Wanted& other) const {
    return text == other.text && Signature::orders_agree(order, other.order);
  }
};

}  // namespace

void check_agreement(Bootstrap& bootstrap, const std::string& text, ArrayOrder order) {
  Wanted mine{.text = {}, .order = order};
  text.copy(mine.text.data(), mine.text.size() - 1);
  const auto all = bootstrap.all_gather(mine);
  // Orders are compared with that of the first rank that states one.
  const auto ordered = std::find_if(all.begin(), all.end(), [](const Wanted& wanted) {
    return wanted.order != ArrayOrder::unsaid;
  });
  const auto first_ordered = static_cast<std::size_t>(ordered - all.begin());
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    for (const std::size_t other : {std::size_t{0}, first_ordered % all.size()})
      if (!all[rank].agrees_with(all[other]))
        throw Error(ErrorCode::mismatch,
                    fmt::format("ranks disagree: rank {} calls {}; rank {} calls {}", rank,
                                all[rank].describe(), other, all[other].describe()));
}

void check_agreement(Bootstrap& bootstrap, const Call& call, const CallOptions& options,
                     const std::string& places) {
  check_agreement(
      bootstrap,
      fmt::format("{} of {} {} elements, {} (scale {}), root {}, {}, algorithm {}, {} x {} threads",
                  name_of(call.collective), call.count, name_of(call.type), name_of(call.op),
                  call.scale, call.root, places, in_quotes(options.algorithm), options.blocks,
                  options.threads),
      call.order);
}

}  // namespace plait
