// The C interface: any sequence of calls, with arguments that are right, wrong and absent, by one
// rank, or by two that call alike. What must hold: each call returns, with a status of the
// header's, and a sentence if it fails. Buffers are as large as the counts say, as only the caller
// can know that.
#include "c_interface.hpp"

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "interop/c/arguments.hpp"
#include "plait/collective_table.h"
#include "plait/plait.hpp"

namespace plait::fuzz {

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

/// One of these, by number.
using Way = std::function<void()>;
template <std::size_t size>
void one_of(unsigned which, const Way (&ways)[size]) {
  ways[which % size]();
}

void Program::message(unsigned which) {
  const Ends e = ends();
  one_of(which,
         {[&] { check(plait_send(comm(), e.send, e.count, type(), rank(), stream(), options())); },
          [&] { check(plait_recv(comm(), e.recv, e.count, type(), rank(), stream(), options())); },
          [&] {
            check(plait_send_recv(comm(), e.send, e.count, rank(), e.recv, e.count, rank(), type(),
                                  stream(), options()));
          },
          [&] { counted(e); }});
}

/// Blocks of the ranks or of neighbours, with a count for each.
void Program::counted(const Ends& e) {
  // As in `ends`: such a call must be refused for its counts, also where the count there is 0.
  const bool nowhere = is_null_page(e.send) || is_null_page(e.recv);
  std::size_t v[4][2];
  for (auto& list : v)
    for (std::size_t& value : list)
      value = nowhere                  ? none
              : e.count > most         ? e.count
              : bytes_.next() % 4 == 0 ? 0
                                       : bytes_.next() % (most / 4);
  const bool gap = bytes_.next() % 8 == 0;
  const auto* const counts = gap ? nullptr : v[0];
  one_of(bytes_.next(), {[&] {
                           check(plait_all_gather_v(comm(), e.send, v[2][0], e.recv, counts, v[1],
                                                    type(), stream(), options()));
                         },
                         [&] {
                           check(plait_gather_v(comm(), e.send, v[0][0], e.recv, counts, v[1],
                                                type(), rank(), stream(), options()));
                         },
                         [&] {
                           check(plait_scatter_v(comm(), e.send, counts, v[1], e.recv, v[0][0],
                                                 type(), rank(), stream(), options()));
                         },
                         [&] {
                           const int peers[] = {rank(), PLAIT_PROC_NULL};
                           const std::size_t sends = bytes_.next() % 3,
                                             receives = bytes_.next() % 3;
                           check(plait_neighbor_all_to_all_v(comm(), e.send, sends, peers, counts,
                                                             v[1], e.recv, receives, peers, v[2],
                                                             v[3], type(), stream(), options()));
                         },
                         [&] {
                           check(plait_reduce_scatter_v(comm(), e.send, counts, e.recv, type(),
                                                        op(), stream(), options()));
                         },
                         [&] {
                           check(plait_all_to_all_v(comm(), e.send, counts, v[1], e.recv, v[2],
                                                    v[3], type(), stream(), options()));
                         }});
}

/// Reductions by a function of the program.
void Program::own_operation(unsigned which) {
  const Ends e = ends();
  const plait_host_operation* const op = operation();
  if (which % 5 == 2) {
    check(plait_reduce_by(comm(), e.send, e.recv, e.count, op, rank(), stream()));
    return;
  }
  constexpr decltype(&plait_scan_by) ways[] = {plait_all_reduce_by, plait_reduce_scatter_by,
                                               nullptr, plait_scan_by, plait_exscan_by};
  check(ways[which % 5](comm(), e.send, e.recv, e.count, op, stream()));
}

/// The end of calls, and events.
void Program::completion(unsigned which) {
  const bool nowhere = bytes_.next() % 16 == 0;
  int done = -1;
  int* const answer = nowhere ? nullptr : &done;
  const auto yes_or_no = [&](plait_status status) {
    if (check(status) == PLAIT_SUCCESS) require(done == 0 || done == 1, "it is done or not");
  };
  one_of(which,
         {[&] { yes_or_no(plait_test(comm(), stream(), answer)); },
          [&] {
            const plait_stream_t streams[] = {stream(), stream()};
            const std::size_t count = bytes_.next() % 3;
            std::size_t index = 99;
            if (check(plait_wait_any(comm(), bytes_.next() % 16 == 0 ? nullptr : streams, count,
                                     nowhere ? nullptr : &index)) == PLAIT_SUCCESS)
              require(index < count, "the stream that is empty is one of those");
          },
          [&] {
            plait_event_t event = nullptr;
            if (events_.size() < 4 &&
                check(plait_event_create(comm(), nowhere ? nullptr : &event)) == PLAIT_SUCCESS)
              events_.push_back(event);
          },
          [&] { check(plait_event_record(comm(), event(), stream())); },
          [&] { check(plait_event_wait(comm(), event(), stream())); },
          [&] { yes_or_no(plait_event_test(comm(), event(), answer)); },
          [&] { check(plait_event_synchronize(comm(), event())); },
          [&] {
            if (!events_.empty() && !nowhere) {
              dead_event_ = events_.back();
              events_.pop_back();
            }
            check(plait_event_destroy(dead_event_));
          }});
}

void Program::object(unsigned which) {
  const bool nowhere = bytes_.next() % 16 == 0;
  one_of(which,
         {[&] {
            plait_buffer buffer = nullptr;
            const std::size_t sizes[] = {0, 1, 4096, room + 256, none, std::size_t{1} << 60};
            const std::size_t size = bytes_.one_of(sizes);
            if (check(plait_buffer_allocate(comm(), size, nowhere ? nullptr : &buffer)) !=
                PLAIT_SUCCESS)
              return;
            // Another communicator, or a place at the end, makes ordinary memory of it: that has
            // room for any call.
            if (size < room) check(plait_buffer_free(buffer));
            else buffers_.push_back(buffer);
          },
          [&] {
            check(plait_buffer_free(buffers_.empty() || nowhere
                                        ? reinterpret_cast<plait_buffer>(comm())
                                        : buffers_[bytes_.next() % buffers_.size()]));
          },
          [&] {
            plait_stream_t stream = nullptr;
            if (check(plait_stream_create(comm(), nowhere ? nullptr : &stream)) == PLAIT_SUCCESS)
              streams_.push_back(stream);
          },
          [&] {
            plait_comm part = nullptr;
            if (made_.size() < 2 &&
                check(plait_comm_split(comm(), static_cast<int>(bytes_.next() % 3) - 1, rank(),
                                       nowhere ? nullptr : &part)) == PLAIT_SUCCESS &&
                part != nullptr)
              made_.push_back(part), comms_.push_back(part);
          },
          [&] {
            if (made_.empty()) return;
            check(plait_comm_destroy(made_.back()));  // its handle stays among those that are tried
            made_.pop_back();
          },
          [&] { check(plait_group_start()); }, [&] { check(plait_group_end()); },
          [&] {
            const Ends e = ends();
            check(plait_copy(comm(), e.recv, e.send, e.count > most ? 0 : e.count, stream()));
          }});
}

void Program::question(unsigned which) {
  char text[64];
  const std::size_t capacity = bytes_.next() % (sizeof text + 1);
  std::size_t length = 0, bytes = 0;
  int number = 0;
  plait_status status = PLAIT_SUCCESS;
  const auto now_and_then = [&](unsigned of) { return bytes_.next() % of == 0; };
  one_of(
      which,
      {[&] { check(plait_comm_rank(comm(), &number)); },
       [&] { check(plait_comm_size(comm(), now_and_then(8) ? nullptr : &number)); },
       [&] {
         check(plait_comm_describe(comm(), capacity % 8 == 0 ? nullptr : text, capacity, &length));
       },
       [&] { check(plait_size_of(type(), &bytes)); },
       [&] { check(plait_is_symmetric(comm(), place(), count(), &number)); },
       [&] { check(plait_synchronize(comm(), stream())); },
       [&] { check(plait_async_error(comm(), &status)); },
       [&] {
         plait_statistics statistics = PLAIT_STATISTICS_INIT;
         if (now_and_then(4)) statistics.size = bytes_.next();
         if (statistics.size <= sizeof statistics) check(plait_statistics_of(comm(), &statistics));
       },
       [&] {
         plait_progress progress = PLAIT_PROGRESS_INIT;
         check(plait_progress_of(comm(), &progress));
       },
       [&] {
         plait_call call = PLAIT_CALL_INIT;
         call.collective = static_cast<plait_collective>(bytes_.next() % 11);
         call.type = type();
         call.op = op();
         call.count = count();
         call.root = rank();
         call.symmetric = bytes_.next() % 2;
         call.in_place = bytes_.next() % 2;
         if (now_and_then(2))
           check(plait_chosen(comm(), &call, options(), text, capacity, &length));
         else check(plait_explain(comm(), &call, options(), text, capacity, nullptr));
       },
       [&] { check(plait_refuse(now_and_then(2) ? nullptr : "refused by an interface above")); },
       [&] {
         if (now_and_then(8))
           check(plait_abort(comm(), now_and_then(2) ? nullptr : "as the input says"));
       }});
}

void Program::call() {
  const unsigned which = bytes_.next();
  if (which >= 240) return own_operation(which);
  if (which >= 216) return completion(which);
  constexpr void (Program::*kinds[])(unsigned) = {&Program::collective, &Program::message,
                                                  &Program::object, &Program::question};
  (this->*kinds[which % 4])(which / 4);
}

}  // namespace plait::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plait;          // NOLINT(google-build-using-namespace): one function
  setenv("PLAIT_LOG", "off", 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  setenv("PLAIT_SCRATCH_BYTES", "1M", 1);
  // With all checks compiled in, a calibration takes longer than an input may.
  setenv("PLAIT_CALIBRATE", "0", 1);
  fuzz::Bytes bytes(data, size);
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
        fuzz::Program(comm, bytes).run();
      });
    });
  for (std::thread& thread : threads) thread.join();
  return 0;
}
