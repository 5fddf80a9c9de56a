// The C interface: any sequence of calls, with arguments that are right, wrong and absent, by one
// rank, or by two that call alike. What must hold: each call returns, with a status of the
// header's, and a sentence if it fails. Buffers are as large as the counts say, as only the caller
// can know that.
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "interop/c/arguments.hpp"
#include "plait/collective_table.h"
#include "plait/plait.h"
#include "plait/plait.hpp"
#include "target.hpp"

namespace {

using plait::fuzz::Bytes;
using plait::fuzz::require;

constexpr std::size_t most = 3000;           // elements of a call that is served
constexpr std::size_t room = 2 * 16 * most;  // bytes of two blocks of the largest type

/// Bits of both terms, whatever the elements are. The context is the bytes of one; a call whose
/// structure was cut short has none.
void combine(const void* in, void* inout, std::size_t count, void* context) {
  if (context == nullptr) return;
  const auto* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(inout);
  for (std::size_t i = 0; i < count * *static_cast<const std::size_t*>(context); ++i)
    to[i] ^= from[i];
}

/// An address or a handle that nobody gave out.
template <class Pointer>
Pointer wild(std::uintptr_t number) {
  return reinterpret_cast<Pointer>(number);  // NOLINT(performance-no-int-to-ptr)
}

/// One rank's calls.
class Program {
 public:
  Program(plait_comm comm, Bytes bytes)
      : bytes_(bytes), comms_{comm, nullptr, wild<plait_comm>(0x12345)} {}

  void run() {
    int own = -1;
    require(plait_comm_rank(comms_.front(), &own) == PLAIT_SUCCESS,
            "the handle is one that the library knows");
    for (int calls = 0; calls < 40 && !bytes_.empty(); ++calls) call();
    while (plait::group_is_open()) static_cast<void>(plait_group_end());
    for (plait_comm comm : made_) check(plait_comm_destroy(comm));
    check(plait_comm_destroy(comms_.front()));  // waits for what still uses the memory here
    for (plait_stream_t stream : streams_) check(plait_stream_destroy(stream));
    for (plait_event_t event : events_) check(plait_event_destroy(event));
  }

 private:
  plait_status check(plait_status status) {
    require(std::strcmp(plait_status_name(status), "invalid") != 0,
            "a status is one of the header's");
    if (status != PLAIT_SUCCESS) plait::fuzz::require_readable(plait_last_error());
    return status;
  }

  plait_comm comm() { return comms_[bytes_.next() % 8 < 6 ? 0 : bytes_.next() % comms_.size()]; }
  plait_stream_t stream() {
    return streams_.empty() || bytes_.next() % 2 == 0 ? nullptr : streams_.back();
  }
  std::size_t count() {
    const std::uint8_t kind = bytes_.next();
    if (kind < 200) return kind % 7 == 0 ? 0 : (kind * 37u) % most;
    constexpr std::size_t none =
        std::numeric_limits<std::size_t>::max();  // of these no memory can have so many
    const std::size_t choices[] = {none, none - 1, none / 2, none / 3};
    return bytes_.one_of(choices);
  }
  /// A place in ordinary memory, with room for two blocks of any type, or in a symmetric buffer.
  void* place() {
    const std::uint8_t kind = bytes_.next();
    if (kind < 8) return nullptr;
    if (kind < 16) return wild<void*>(0x10);
    void* symmetric = nullptr;
    if (kind < 100 && !buffers_.empty())
      static_cast<void>(plait_buffer_pointer(buffers_.back(), &symmetric));
    if (symmetric != nullptr)
      return static_cast<std::byte*>(symmetric) + (kind % 4 == 3 ? bytes_.next() : 0);
    return memory_[kind % 2].data() + (kind % 16 == 15 ? 1 : 0);
  }
  static bool is_null_page(const void* pointer) { return pointer == wild<void*>(0x10); }

  const plait_call_options* options() {
    if (bytes_.next() % 4 != 0) return nullptr;
    static const char* const names[] = {
        "",     "ring", "twoshot",  "oneshot_ll", "pairwise_ll", "direct_push",
        "yali", "p2p",  "nonesuch", "r\x1bing"};
    options_ = PLAIT_CALL_OPTIONS_INIT;
    options_.algorithm = bytes_.one_of(names);
    const double scales[] = {1, 0.5, -0.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
    options_.scale = bytes_.one_of(scales);
    const unsigned shapes[] = {0, 1, 2, 64, 65, 1u << 31, ~0u};
    options_.blocks = bytes_.next() % 4 == 0 ? bytes_.one_of(shapes) : 0;
    options_.threads = bytes_.next() % 4 == 0 ? bytes_.one_of(shapes) : 0;
    options_.symmetric = bytes_.next() % 4 == 0;
    const std::size_t sizes[] = {sizeof options_,     sizeof options_, sizeof options_, 0, 8, 16,
                                 sizeof options_ + 8, ~std::size_t{0}};
    options_.size = bytes_.one_of(sizes);
    return &options_;
  }
  plait_data_type type() {
    const std::uint8_t kind = bytes_.next();
    return static_cast<plait_data_type>(kind < 240 ? kind % 21 : static_cast<int>(kind) - 250);
  }
  plait_reduce_op op() {
    const std::uint8_t kind = bytes_.next();
    return static_cast<plait_reduce_op>(kind < 240 ? kind % 14 : static_cast<int>(kind) - 250);
  }
  int rank() {
    const int ranks[] = {
        0, 0, 0, 1, 1, -1, 2, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
    return bytes_.one_of(ranks);
  }
  struct Ends {
    void *send, *recv;
    std::size_t count;
  };
  Ends ends() {
    Ends ends{place(), place(), count()};
    // Only the caller can know that an address belongs to no buffer, so such a call must be refused
    // for its count.
    if ((is_null_page(ends.send) || is_null_page(ends.recv)) && ends.count != 0)
      ends.count = std::numeric_limits<std::size_t>::max();
    return ends;
  }

  const plait_host_operation* operation() {
    static std::size_t bytes[] = {1, 8, 16};
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
    if (bytes_.next() % 16 == 0) return nullptr;
    operation_ = PLAIT_HOST_OPERATION_INIT;
    operation_.function = bytes_.next() % 16 == 0 ? nullptr : combine;
    std::size_t& own = bytes[bytes_.next() % 3];
    operation_.context = &own;
    const std::size_t elements[] = {own, own, own, own, 0, none, none / 2};
    operation_.element_bytes = bytes_.one_of(elements);
    const std::size_t alignments[] = {1, 1, own, 8, 0, 3, 128, none};
    operation_.alignment = bytes_.one_of(alignments);
    const std::size_t sizes[] = {
        sizeof operation_, sizeof operation_, sizeof operation_, 0, 16, 24, sizeof operation_ + 8};
    operation_.size = bytes_.one_of(sizes);
    return &operation_;
  }
  plait_event_t event() {
    const std::uint8_t kind = bytes_.next();
    if (kind < 8) return nullptr;
    if (kind < 16) return wild<plait_event_t>(0x10);
    if (kind < 24) return dead_event_;
    return events_.empty() ? nullptr : events_[kind % events_.size()];
  }

  void call();
  void collective(unsigned which);
  void counted(const Ends& e);
  void own_operation(unsigned which);
  void completion(unsigned which);
  void message(unsigned which);
  void object(unsigned which);
  void question(unsigned which);

  Bytes bytes_;
  std::vector<plait_comm> comms_, made_;
  std::vector<plait_buffer> buffers_;
  std::vector<plait_stream_t> streams_;
  std::vector<plait_event_t> events_;
  plait_event_t dead_event_ = nullptr;  // destroyed, and still tried
  plait_call_options options_ = PLAIT_CALL_OPTIONS_INIT;
  plait_host_operation operation_ = PLAIT_HOST_OPERATION_INIT;
  std::array<std::vector<std::byte>, 2> memory_{std::vector<std::byte>(room + 8),
                                                std::vector<std::byte>(room + 8)};
};

/// Those of the table, the barrier, and a call as data.
void Program::collective(unsigned which) {
  const Ends e = ends();
#define PLAIT_ONE(...) +1  // NOLINT(bugprone-macro-parentheses): a term of a sum
  constexpr unsigned rows = PLAIT_COLLECTIVES(PLAIT_ONE, PLAIT_NO_OTHER);
#undef PLAIT_ONE
  which %= rows + 2;
  unsigned row = 0;
#define PLAIT_CALL(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)      \
  if (which == row++)                                           \
    check(plait_##NAME(comm(), e.send, e.recv, e.count, type(), \
                       PLAIT_IF_##OP(op(), ) PLAIT_IF_##ROOT(rank(), ) stream(), options()));
  PLAIT_COLLECTIVES(PLAIT_CALL, PLAIT_NO_OTHER)
#undef PLAIT_CALL
  if (which == row++) check(plait_barrier(comm(), stream()));
  if (which != row) return;
  plait_call call = PLAIT_CALL_INIT;
  call.collective = static_cast<plait_collective>(static_cast<int>(bytes_.next() % 12) - 1);
  call.type = type();
  call.op = op();
  call.root = rank();
  call.count = e.count;
  const std::size_t sizes[] = {sizeof call, sizeof call, sizeof call, 0, 12, sizeof call + 64};
  call.size = bytes_.one_of(sizes);
  check(plait_enqueue(comm(), bytes_.next() % 16 == 0 ? nullptr : &call, e.send, e.recv, stream(),
                      options()));
}

void Program::message(unsigned which) {
  const Ends e = ends();
  switch (which % 4) {
    case 0:
      check(plait_send(comm(), e.send, e.count, type(), rank(), stream(), options()));
      break;
    case 1:
      check(plait_recv(comm(), e.recv, e.count, type(), rank(), stream(), options()));
      break;
    case 2:
      check(plait_send_recv(comm(), e.send, e.count, rank(), e.recv, e.count, rank(), type(),
                            stream(), options()));
      break;
    default:
      counted(e);
  }
}

/// Blocks of the ranks or of neighbours, with a count for each.
void Program::counted(const Ends& e) {
  // As in `ends`: such a call must be refused for its counts, also where the count there is 0.
  const bool nowhere = is_null_page(e.send) || is_null_page(e.recv);
  std::size_t values[4][2];
  for (auto& list : values)
    for (std::size_t& value : list)
      value = nowhere                  ? std::numeric_limits<std::size_t>::max()
              : e.count > most         ? e.count
              : bytes_.next() % 4 == 0 ? 0
                                       : bytes_.next() % (most / 4);
  const bool gap = bytes_.next() % 8 == 0;
  const auto* const counts = gap ? nullptr : values[0];
  switch (bytes_.next() % 6) {
    case 0:
      check(plait_all_gather_v(comm(), e.send, values[2][0], e.recv, counts, values[1], type(),
                               stream(), options()));
      break;
    case 1:
      check(plait_gather_v(comm(), e.send, values[0][0], e.recv, counts, values[1], type(), rank(),
                           stream(), options()));
      break;
    case 2:
      check(plait_scatter_v(comm(), e.send, counts, values[1], e.recv, values[0][0], type(), rank(),
                            stream(), options()));
      break;
    case 3: {
      const int peers[] = {rank(), PLAIT_PROC_NULL};
      const std::size_t sends = bytes_.next() % 3, receives = bytes_.next() % 3;
      check(plait_neighbor_all_to_all_v(comm(), e.send, sends, peers, counts, values[1], e.recv,
                                        receives, peers, values[2], values[3], type(), stream(),
                                        options()));
      break;
    }
    case 4:
      check(plait_reduce_scatter_v(comm(), e.send, counts, e.recv, type(), op(), stream(),
                                   options()));
      break;
    default:
      check(plait_all_to_all_v(comm(), e.send, counts, values[1], e.recv, values[2], values[3],
                               type(), stream(), options()));
  }
}

/// Reductions by a function of the program.
void Program::own_operation(unsigned which) {
  const Ends e = ends();
  const plait_host_operation* const op = operation();
  switch (which % 5) {
    case 0:
      check(plait_all_reduce_by(comm(), e.send, e.recv, e.count, op, stream()));
      break;
    case 1:
      check(plait_reduce_scatter_by(comm(), e.send, e.recv, e.count, op, stream()));
      break;
    case 2:
      check(plait_reduce_by(comm(), e.send, e.recv, e.count, op, rank(), stream()));
      break;
    case 3:
      check(plait_scan_by(comm(), e.send, e.recv, e.count, op, stream()));
      break;
    default:
      check(plait_exscan_by(comm(), e.send, e.recv, e.count, op, stream()));
  }
}

/// The end of calls, and events.
void Program::completion(unsigned which) {
  const bool nowhere = bytes_.next() % 16 == 0;
  int done = -1;
  switch (which % 8) {
    case 0:
      if (check(plait_test(comm(), stream(), nowhere ? nullptr : &done)) == PLAIT_SUCCESS)
        require(done == 0 || done == 1, "a stream is empty or not");
      break;
    case 1: {
      const plait_stream_t streams[] = {stream(), stream()};
      const std::size_t count = bytes_.next() % 3;
      std::size_t index = 99;
      if (check(plait_wait_any(comm(), bytes_.next() % 16 == 0 ? nullptr : streams, count,
                               nowhere ? nullptr : &index)) == PLAIT_SUCCESS)
        require(index < count, "the stream that is empty is one of those");
      break;
    }
    case 2: {
      plait_event_t event = nullptr;
      if (events_.size() < 4 &&
          check(plait_event_create(comm(), nowhere ? nullptr : &event)) == PLAIT_SUCCESS)
        events_.push_back(event);
      break;
    }
    case 3:
      check(plait_event_record(comm(), event(), stream()));
      break;
    case 4:
      check(plait_event_wait(comm(), event(), stream()));
      break;
    case 5:
      if (check(plait_event_test(comm(), event(), nowhere ? nullptr : &done)) == PLAIT_SUCCESS)
        require(done == 0 || done == 1, "an event is done or not");
      break;
    case 6:
      check(plait_event_synchronize(comm(), event()));
      break;
    default:
      if (!events_.empty() && !nowhere) {
        dead_event_ = events_.back();
        events_.pop_back();
      }
      check(plait_event_destroy(dead_event_));
  }
}

void Program::object(unsigned which) {
  const bool nowhere = bytes_.next() % 16 == 0;
  switch (which % 8) {
    case 0: {
      plait_buffer buffer = nullptr;
      const std::size_t sizes[] = {
          0, 1, 4096, room + 256, std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60};
      const std::size_t size = bytes_.one_of(sizes);
      if (check(plait_buffer_allocate(comm(), size, nowhere ? nullptr : &buffer)) != PLAIT_SUCCESS)
        break;
      // Another communicator, or a place at the end, makes ordinary memory of it: that has room for
      // any call.
      if (size < room) check(plait_buffer_free(buffer));
      else buffers_.push_back(buffer);
      break;
    }
    case 1:
      check(plait_buffer_free(buffers_.empty() || nowhere
                                  ? reinterpret_cast<plait_buffer>(comm())
                                  : buffers_[bytes_.next() % buffers_.size()]));
      break;
    case 2: {
      plait_stream_t stream = nullptr;
      if (check(plait_stream_create(comm(), nowhere ? nullptr : &stream)) == PLAIT_SUCCESS)
        streams_.push_back(stream);
      break;
    }
    case 3: {
      plait_comm part = nullptr;
      if (made_.size() < 2 &&
          check(plait_comm_split(comm(), static_cast<int>(bytes_.next() % 3) - 1, rank(),
                                 nowhere ? nullptr : &part)) == PLAIT_SUCCESS &&
          part != nullptr)
        made_.push_back(part), comms_.push_back(part);
      break;
    }
    case 4: {
      if (made_.empty()) break;
      check(plait_comm_destroy(made_.back()));  // its handle stays among those that are tried
      made_.pop_back();
      break;
    }
    case 5:
      check(plait_group_start());
      break;
    case 6:
      check(plait_group_end());
      break;
    default: {
      const Ends e = ends();
      check(plait_copy(comm(), e.recv, e.send, e.count > most ? 0 : e.count, stream()));
    }
  }
}

void Program::question(unsigned which) {
  char text[64];
  const std::size_t capacity = bytes_.next() % (sizeof text + 1);
  std::size_t length = 0, bytes = 0;
  int number = 0;
  plait_status status = PLAIT_SUCCESS;
  plait_call call = PLAIT_CALL_INIT;
  switch (which % 12) {
    case 0:
      check(plait_comm_rank(comm(), &number));
      break;
    case 1:
      check(plait_comm_size(comm(), bytes_.next() % 8 == 0 ? nullptr : &number));
      break;
    case 2:
      check(plait_comm_describe(comm(), capacity % 8 == 0 ? nullptr : text, capacity, &length));
      break;
    case 3:
      check(plait_size_of(type(), &bytes));
      break;
    case 4:
      check(plait_is_symmetric(comm(), place(), count(), &number));
      break;
    case 5:
      check(plait_synchronize(comm(), stream()));
      break;
    case 6:
      check(plait_async_error(comm(), &status));
      break;
    case 7: {
      plait_statistics statistics = PLAIT_STATISTICS_INIT;
      if (bytes_.next() % 4 == 0) statistics.size = bytes_.next();
      if (statistics.size <= sizeof statistics) check(plait_statistics_of(comm(), &statistics));
      break;
    }
    case 8: {
      plait_progress progress = PLAIT_PROGRESS_INIT;
      check(plait_progress_of(comm(), &progress));
      break;
    }
    case 9:
      call.collective = static_cast<plait_collective>(bytes_.next() % 11);
      call.type = type();
      call.op = op();
      call.count = count();
      call.root = rank();
      call.symmetric = bytes_.next() % 2;
      call.in_place = bytes_.next() % 2;
      if (bytes_.next() % 2 == 0)
        check(plait_chosen(comm(), &call, options(), text, capacity, &length));
      else check(plait_explain(comm(), &call, options(), text, capacity, nullptr));
      break;
    case 10:
      check(plait_refuse(bytes_.next() % 2 == 0 ? nullptr : "refused by an interface above"));
      break;
    default:
      if (bytes_.next() % 8 == 0)
        check(plait_abort(comm(), bytes_.next() % 2 == 0 ? nullptr : "as the input says"));
  }
}

void Program::call() {
  const unsigned which = bytes_.next();
  if (which >= 240) return own_operation(which);
  if (which >= 216) return completion(which);
  switch (which % 4) {
    case 0:
      return collective(which / 4);
    case 1:
      return message(which / 4);
    case 2:
      return object(which / 4);
    default:
      return question(which / 4);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plait;          // NOLINT(google-build-using-namespace): one function
  setenv("PLAIT_LOG", "off", 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  setenv("PLAIT_SCRATCH_BYTES", "1M", 1);
  Bytes bytes(data, size);
  const int ranks = 1 + bytes.next() % 2;
  CommunicatorOptions options;
  options.backend = BackendKind::host;
  options.timeout = std::chrono::milliseconds(300);
  auto bootstraps = make_thread_bootstraps(ranks);
  std::vector<std::thread> threads;
  for (auto& bootstrap : bootstraps)
    threads.emplace_back([&, mine = std::move(bootstrap)]() mutable {
      fuzz::succeeds([&] {  // a machine that is busy may let the ranks' creation run out of time
        auto owner =
            std::make_unique<c::Owner>(c::Owner{Communicator::create(std::move(mine), options)});
        const auto comm =
            c::handle_of<plait_comm>(c::Communicators::instance().insert(std::move(owner)));
        Program(comm, bytes).run();
      });
    });
  for (std::thread& thread : threads) thread.join();
  return 0;
}
