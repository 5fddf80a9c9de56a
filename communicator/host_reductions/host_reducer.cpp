#include "communicator/host_reductions/host_reducer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calls/call_checks.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/float_environment.hpp"

namespace plait {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t work_bytes = std::size_t{4} << 20;
/// Messages up to this size are exchanged whole.
constexpr std::size_t whole_bytes = std::size_t{16} << 10;
/// Terms are combined in pieces that stay in the first cache.
constexpr std::size_t piece_bytes = std::size_t{8} << 10;

/// Terms of `count` elements, `stride` bytes apart, and the place of the result: memory apart from
/// them, or the last term.
struct Terms {
  const std::byte* first;
  std::size_t stride;
  std::size_t number;  // of terms, at least one
  std::byte* result;
  std::size_t count;
};

/// The function must not throw. So an exception ends the program here, where it can be seen, and
/// not in a wait on another thread.
void combine(const HostOperation& op, const Terms& terms) noexcept {
  const FloatEnvironment defaults;
  const std::size_t most = std::max<std::size_t>(piece_bytes / op.element_bytes, 1);
  for (std::size_t done = 0; done < terms.count; done += most) {
    const std::size_t count = std::min(most, terms.count - done), at = done * op.element_bytes;
    const std::byte* term = terms.first + (terms.number - 1) * terms.stride + at;
    std::byte* const result = terms.result + at;
    if (term != result) std::memcpy(result, term, count * op.element_bytes);
    for (std::size_t i = 1; i < terms.number; ++i) {
      term -= terms.stride;
      op.function(term, result, count, op.context);
    }
  }
}

/// The reduction as a call on the units in which it is moved.
Call in_units(const HostReduction& reduction) {
  return {.collective = reduction.collective,
          .type = reduction.unit(),
          .count = reduction.units(reduction.count),
          .root = reduction.root};
}

}  // namespace

void check_host_operation(const HostReduction& reduction, std::size_t elements, BackendKind backend,
                          int rank, int ranks) {
  const std::string_view what = name_of(reduction.collective);
  const HostOperation& op = reduction.op;
  const auto refuse = [&](const std::string& why, ErrorCode code = ErrorCode::invalid_argument) {
    throw Error(code, fmt::format("{}: rank {}: {}", what, rank, why));
  };
  if (backend != BackendKind::host)
    refuse(fmt::format("{} can't call a function of the program: compile the operation into a "
                       "kernel, as docs/adding-an-algorithm.md says under \"Your own elements and "
                       "operations\"",
                       name_of(backend)),
           ErrorCode::unsupported);
  if (op.function == nullptr) refuse("the operation's function is null");
  if (!std::has_single_bit(op.alignment) || op.alignment > 64)
    refuse(
        fmt::format("the operation's alignment is {}, not a power of two up to 64", op.alignment));
  if (op.element_bytes == 0) refuse("the operation's elements have 0 bytes");
  if (op.element_bytes % op.alignment != 0)
    refuse(
        fmt::format("the operation's elements have {} bytes, which is no multiple of their "
                    "alignment, {}",
                    op.element_bytes, op.alignment));
  if (elements != 0 && elements != op.element_bytes)
    refuse(fmt::format("the buffers' elements have {} bytes, the operation's {}", elements,
                       op.element_bytes));
  if (reduction.count == 0) return;
  // Beyond any memory, as for the limit of counts (check_count).
  if (reduction.count >
      std::numeric_limits<std::size_t>::max() / 4 / op.element_bytes / static_cast<unsigned>(ranks))
    refuse(fmt::format("count {} of elements of {} bytes overflows", reduction.count,
                       op.element_bytes));
  const auto check = [&](const void* pointer, const char* name) {
    if (pointer == nullptr) refuse(fmt::format("{} is null, with count {}", name, reduction.count));
    if (reinterpret_cast<std::uintptr_t>(pointer) % op.alignment != 0)
      refuse(fmt::format("{} = {} is not aligned to the {} bytes of the operation's elements", name,
                         pointer, op.alignment));
  };
  check(reduction.send, "send");
  if (reduction.collective != Collective::reduce || rank == reduction.root)
    check(reduction.recv, "recv");
}

void HostReducer::Free::operator()(std::byte* memory) const { operator delete(memory, alignment); }

/// Has room for two elements per rank.
const HostReducer::Memory& HostReducer::memory_for(std::size_t element_bytes) {
  const auto ranks = static_cast<std::size_t>(own_.size());
  const std::size_t bytes = std::max(work_bytes, 2 * ranks * element_bytes);
  if (memories_.empty() || memories_.back().bytes < bytes) {
    memories_.reserve(memories_.size() + 1);
    auto* const memory = static_cast<std::byte*>(operator new(bytes, alignment));
    memories_.push_back({decltype(Memory::begin)(memory), bytes});
  }
  return memories_.back();
}

/// The rounds of one reduction. Each takes `count` elements from element `at` on, as many as the
/// work memory has room for.
class HostReducer::Rounds {
 public:
  Rounds(HostReducer& reducer, const Memory& memory, const HostReduction& reduction,
         StreamRef stream)
      : reducer_(reducer),
        reduction_(reduction),
        stream_(stream),
        op_(reduction.op),
        element_(op_.element_bytes),
        ranks_(static_cast<std::size_t>(reducer.own_.size())),
        rank_(static_cast<std::size_t>(reducer.own_.rank())),
        work_(memory.begin.get()),
        room_(memory.bytes / ranks_ / element_),
        send_(static_cast<const std::byte*>(reduction.send)),
        recv_(static_cast<std::byte*>(reduction.recv)) {}

  void enqueue() {
    const std::size_t count = reduction_.count;
    if (reduction_.collective == Collective::exscan && ranks_ == 1) return;
    if (ranks_ == 1) return move(Collective::broadcast, count, send_, recv_);
    if (reduction_.collective == Collective::reduce_scatter) return scatter_all();
    if (is_scan(reduction_.collective))
      return in_rounds(0, count, room_, [this](std::size_t at, std::size_t n) { scan(at, n); });
    const std::size_t in_parts = count * element_ <= whole_bytes ? 0 : count / ranks_ * ranks_;
    in_rounds(0, in_parts, room_ * ranks_,
              [this](std::size_t at, std::size_t n) { reduce_in_parts(at, n / ranks_); });
    in_rounds(in_parts, count, room_,
              [this](std::size_t at, std::size_t n) { reduce_whole(at, n); });
  }
  /// Something was enqueued, so the other ranks count on the rest.
  bool has_begun() const { return has_begun_; }

 private:
  template <class Round>
  static void in_rounds(std::size_t begin, std::size_t end, std::size_t most, Round round) {
    for (std::size_t at = begin; at < end; at += most) round(at, std::min(most, end - at));
  }

  void move(Collective collective, std::size_t count, const std::byte* send, std::byte* recv) {
    reducer_.collectives_.call({.call = {.collective = collective,
                                         .type = reduction_.unit(),
                                         .count = reduction_.units(count),
                                         .root = reduction_.root},
                                .send = send,
                                .recv = recv,
                                .options = {}},
                               stream_);
    has_begun_ = true;
  }
  void combine_into(std::byte* result, std::size_t count) { combine_first(ranks_, result, count); }
  void combine_first(std::size_t number, std::byte* result, std::size_t count) {
    const Terms terms{work_, count * element_, number, result, count};
    reducer_.run_between_calls(stream_, [op = op_, terms] { combine(op, terms); });
  }
  bool is_for_all() const { return reduction_.collective == Collective::all_reduce; }
  bool is_for_this_rank() const {
    return is_for_all() || rank_ == static_cast<std::size_t>(reduction_.root);
  }
  Collective gathering() const {
    return is_for_all() ? Collective::all_gather : Collective::gather;
  }

  void reduce_whole(std::size_t at, std::size_t count) {
    move(gathering(), count, send_ + at * element_, work_);
    if (is_for_this_rank()) combine_into(recv_ + at * element_, count);
  }

  /// Each rank gathers all terms, and combines the first ones.
  void scan(std::size_t at, std::size_t count) {
    move(Collective::all_gather, count, send_ + at * element_, work_);
    const int terms =
        terms_of(reduction_.collective, static_cast<int>(rank_), static_cast<int>(ranks_));
    if (terms != 0) combine_first(static_cast<std::size_t>(terms), recv_ + at * element_, count);
  }

  void reduce_in_parts(std::size_t at, std::size_t part) {
    move(Collective::all_to_all, part, send_ + at * element_, work_);
    std::byte* const to = is_for_this_rank() ? recv_ + at * element_ : nullptr;
    // In place of the last term where there may be no other memory for it.
    std::byte* const result =
        is_for_all() ? to + rank_ * part * element_ : work_ + (ranks_ - 1) * part * element_;
    combine_into(result, part);
    move(gathering(), part, result, to);
  }

  void scatter_all() {
    const std::size_t count = reduction_.count;
    if (count <= room_) {
      move(Collective::all_to_all, count, send_, work_);
      return combine_into(recv_, count);
    }
    in_rounds(0, count, room_ / 2, [this](std::size_t at, std::size_t n) { scatter(at, n); });
  }

  /// The same elements of all blocks, side by side in the second half of the work memory.
  void scatter(std::size_t at, std::size_t count) {
    const std::size_t bytes = count * element_, stride = reduction_.count * element_;
    std::byte* const packed = work_ + room_ / 2 * ranks_ * element_;
    reducer_.run_between_calls(
        stream_, [from = send_ + at * element_, packed, bytes, stride, ranks = ranks_] {
          for (std::size_t i = 0; i < ranks; ++i)
            std::memcpy(packed + i * bytes, from + i * stride, bytes);
        });
    move(Collective::all_to_all, count, packed, work_);
    combine_into(recv_ + at * element_, count);
  }

  HostReducer& reducer_;
  const HostReduction& reduction_;
  StreamRef stream_;
  const HostOperation& op_;
  std::size_t element_, ranks_, rank_;
  std::byte* work_;
  std::size_t room_;  // in elements per rank
  const std::byte* send_;
  std::byte* recv_;
  bool has_begun_ = false;
};

/// Runs the function when the stream comes to it, before the calls that follow on any stream. Call
/// it directly after or before a call on the same stream. If the communicator is broken by then,
/// the function does not run.
template <class Function>
void HostReducer::run_between_calls(StreamRef stream, Function function) {
  const NativeStream resolved = own_.backend->resolve(stream.native());
  own_.order->enter(resolved);
  own_.backend->host_call(resolved,
                          [watchdog = own_.watchdog.get(), function = std::move(function)] {
                            if (!watchdog->is_broken()) function();
                          });
  own_.order->leave(resolved);
}

/// The other ranks may have begun, so the communicator breaks if there is no memory.
const HostReducer::Memory& HostReducer::memory_or_abort(const HostReduction& reduction) {
  try {
    return memory_for(reduction.op.element_bytes);
  } catch (const std::bad_alloc&) {
    const std::string text = fmt::format(
        "{}: rank {}: there is no memory for elements of {} bytes from {} ranks",
        name_of(reduction.collective), own_.rank(), reduction.op.element_bytes, own_.size());
    faults_.abort(text);
    throw Error(ErrorCode::out_of_memory, text);
  }
}

void HostReducer::check(const HostReduction& reduction, std::size_t elements,
                        StreamRef stream) const {
  check_host_operation(reduction, elements, own_.backend->info().backend, own_.rank(), own_.size());
  PreparedCall moved;
  path_.preparer().describe(
      moved,
      {.call = in_units(reduction), .send = reduction.send, .recv = reduction.recv, .options = {}});
  path_.preparer().check(moved, {}, stream.native());
  faults_.throw_if_broken();
}

/// Compares the ranks' reductions before the calls that they consist of, because those calls don't
/// know the elements. The functions themselves can't be compared.
void HostReducer::reduce(const HostReduction& reduction, std::size_t elements, StreamRef stream) {
  const RefusedNumbers refused{.collective = reduction.count != 0};
  if (OpenGroup::of_thread().is_open())
    return path_.refuse(
        Error(ErrorCode::unsupported, fmt::format("{}: rank {}: a group does not collect "
                                                  "reductions by a function of the program",
                                                  name_of(reduction.collective), own_.rank())),
        refused);
  const auto look = [&] { check(reduction, elements, stream); };
  path_.or_refuse(
      [&] { return refused; },
      [&] {
        if (!own_.settings.check_calls) return look();
        path_.agree_on_call(refusal_of(look), [&] {
          check_agreement(
              *own_.bootstrap,
              fmt::format("{} of {} elements of {} bytes, aligned to {}, a function of the "
                          "program, root {}",
                          name_of(reduction.collective), reduction.count,
                          reduction.op.element_bytes, reduction.op.alignment, reduction.root));
        });
      });
  if (reduction.count != 0) enqueue(reduction, stream);
}

void HostReducer::enqueue(const HostReduction& reduction, StreamRef stream) {
  Rounds rounds(*this, memory_or_abort(reduction), reduction, stream);
  try {
    rounds.enqueue();
  } catch (const std::exception& error) {
    if (rounds.has_begun())
      faults_.abort(fmt::format("a part of {} could not be enqueued: {}",
                                name_of(reduction.collective), error.what()));
    throw;
  }
}

}  // namespace plait
