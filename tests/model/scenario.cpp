#include "model/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "model/recorder.hpp"
#include "support/aged.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait {
template <>
KernelTable<model::ModelKernel>& KernelTable<model::ModelKernel>::instance() {
  static KernelTable table;
  return table;
}
}  // namespace plait

namespace plait::test {
namespace {

const BackendRegistration registration = stand_in_for_cuda<Recorder>();

/// What one call does, and with which elements.
struct Step {
  Subject subject;
  int ranks, call, root;
  std::size_t count;

  Collective collective() const { return subject.collective; }
  std::size_t sent() const { return count * (many_sent() ? static_cast<unsigned>(ranks) : 1); }
  std::size_t received() const {
    return count * (many_received() ? static_cast<unsigned>(ranks) : 1);
  }
  bool many_sent() const {
    return collective() == Collective::reduce_scatter || collective() == Collective::all_to_all ||
           collective() == Collective::scatter;
  }
  bool many_received() const {
    return collective() == Collective::all_gather || collective() == Collective::all_to_all ||
           collective() == Collective::gather;
  }
  bool receives(int rank) const {
    switch (collective()) {
      case Collective::reduce:
      case Collective::gather:
        return rank == root;
      case Collective::exscan:
        return rank != 0;
      default:
        return true;
    }
  }
  /// Element i of a rank's input.
  float input(int rank, std::size_t i) const {
    return static_cast<float>((rank * 31 + call * 17 + static_cast<int>(i) * 3) % 61);
  }
  float sum(int first, int end, std::size_t i) const {
    float all = 0;
    for (int peer = first; peer < end; ++peer) all += input(peer, i);
    return all;
  }
  float value(int rank, std::size_t i) const {
    const auto mine = static_cast<std::size_t>(rank) * count;
    const auto from = static_cast<int>(i / count);
    switch (collective()) {
      case Collective::all_gather:
      case Collective::gather:
        return input(from, i % count);
      case Collective::all_to_all:
        return input(from, mine + i % count);
      case Collective::reduce_scatter:
        return sum(0, ranks, mine + i);
      case Collective::scatter:
        return input(root, mine + i);
      case Collective::broadcast:
        return input(root, i);
      case Collective::send_recv:
        return input((rank + ranks - 1) % ranks, i);
      case Collective::scan:
        return sum(0, rank + 1, i);
      case Collective::exscan:
        return sum(0, rank, i);
      default:
        return sum(0, ranks, i);
    }
  }
};

/// The memory of a rank for one call at a time.
class Buffers {
 public:
  Buffers(Communicator& comm, const Scenario& s) : rank_(comm.rank()), where_(s.where) {
    const std::size_t most = *std::max_element(s.counts.begin(), s.counts.end());
    each_ = (most * static_cast<unsigned>(s.ranks) + 63) / 64 * 64;
    if (where_ == Where::ordinary) {
      const std::size_t bytes = 2 * each_ * sizeof(float);
      memory_ = static_cast<float*>(std::aligned_alloc(128, bytes));
      std::fill_n(memory_, 2 * each_, 0.0f);
      Recording::instance().add_memory(memory_, bytes, fmt::format("memory of rank {}", rank_));
    } else {
      buffer_ = comm.allocate<float>(2 * each_);
      memory_ = buffer_.data();
    }
  }
  Buffers(Buffers&& other) noexcept
      : rank_(other.rank_),
        where_(other.where_),
        each_(other.each_),
        buffer_(std::move(other.buffer_)),
        memory_(std::exchange(other.memory_, nullptr)) {}
  Buffers& operator=(Buffers&&) = delete;
  ~Buffers() {
    if (where_ != Where::ordinary || memory_ == nullptr) return;
    Recording::instance().remove_memory(memory_);
    std::free(memory_);
  }

  /// A barrier has no buffers. Its program stores here before every other one, and there before
  /// the others; after it, peers read what was stored.
  float* send(const Step& step) const {
    if (step.collective() == Collective::barrier) return memory_ + (step.call % 2 == 0 ? 0 : each_);
    return where_ == Where::in_place && step.many_received() && !step.many_sent()
               ? memory_ + static_cast<std::size_t>(rank_) * step.count
               : memory_;
  }
  float* recv(const Step& step) const {
    if (where_ != Where::in_place) return memory_ + each_;
    return step.many_sent() && !step.many_received()
               ? memory_ + static_cast<std::size_t>(rank_) * step.count
               : memory_;
  }

 private:
  int rank_;
  Where where_;
  std::size_t each_;
  Buffer<float> buffer_;
  float* memory_ = nullptr;
};

/// A rank's calls, and what its program does between them.
class Rank {
 public:
  Rank(Communicator& comm, const Scenario& s, std::vector<const Rank*>& all)
      : s_(s), comm_(comm), all_(all) {
    for (int part = 0; part < s.grouped; ++part) buffers_.emplace_back(comm, s);
    all[static_cast<std::size_t>(comm.rank())] = this;
  }

  void record() {
    for (int call = 0; call < s_.calls; ++call) {
      add_use(call);
      std::optional<Group> group;
      if (s_.grouped > 1) group.emplace();
      for (int part = 0; part < s_.grouped; ++part) {
        const Step what = step(call, part);
        const Buffers& buffers = buffers_[static_cast<std::size_t>(part)];
        CallOptions options{.algorithm = what.subject.algorithm};
        if (s_.grouped == 1 && what.collective() != Collective::barrier) {
          options.blocks = s_.shape.blocks;  // calls of a shape of their own share no launches
          options.threads = s_.shape.threads;
        }
        if (what.collective() == Collective::barrier) comm_.barrier({}, options);
        else
          comm_.enqueue({.collective = what.collective(),
                         .type = DataType::f32,
                         .count = what.count,
                         .root = what.root},
                        buffers.send(what), buffers.recv(what), {}, options);
      }
      if (group) group->end();
    }
    add_use(s_.calls);
  }

 private:
  Step step(int call, int part) const {
    const int its_number = call * s_.grouped + part;
    const auto number = static_cast<std::size_t>(its_number);
    const Subject& subject = s_.subjects[number % s_.subjects.size()];
    return {s_.age == 0 ? subject : twin_of(subject), s_.ranks, its_number, its_number % s_.ranks,
            s_.counts[number % s_.counts.size()]};
  }
  void add_use(int call) {
    Recording::instance().add(comm_.rank(), {{1, 1}, [this, call](model::KernelWords& words) {
                                               for (int part = 0; part < s_.grouped; ++part) {
                                                 if (call > 0) look(words, call - 1, part);
                                                 if (call < s_.calls) fill(words, call, part);
                                               }
                                             }});
  }
  void look(model::KernelWords& words, int call, int part) const {
    const Step what = step(call, part);
    const auto number = static_cast<std::size_t>(part);
    if (what.collective() == Collective::barrier) {
      // Other collectives do not keep ranks from storing the next input.
      if (s_.subjects.size() > 1) return;
      for (const Rank* peer : all_)
        for (std::size_t i = 0; i < what.count; ++i)
          look_at(words, call, peer->buffers_[number].send(what) + i,
                  what.input(peer->comm_.rank(), i));
    } else if (what.receives(comm_.rank())) {
      for (std::size_t i = 0; i < what.received(); ++i)
        look_at(words, call, buffers_[number].recv(what) + i, what.value(comm_.rank(), i));
    }
  }
  static void look_at(model::KernelWords& words, int call, const float* element, float wanted) {
    words.explorer().plain(words.its_thread(), element, sizeof(float), false, {});
    if (*element != wanted)
      words.explorer().fail(words.its_thread(),
                            fmt::format("call {}: {}, not {}", call, *element, wanted));
  }
  void fill(model::KernelWords& words, int call, int part) const {
    const Step what = step(call, part);
    float* const send = buffers_[static_cast<std::size_t>(part)].send(what);
    for (std::size_t i = 0; i < what.sent(); ++i) {
      words.explorer().plain(words.its_thread(), send + i, sizeof(float), true, {});
      send[i] = what.input(comm_.rank(), i);
    }
  }

  const Scenario& s_;
  Communicator& comm_;
  std::vector<const Rank*>& all_;
  std::vector<Buffers> buffers_;
};

}  // namespace

std::string Scenario::describe() const {
  static constexpr const char* places[] = {"symmetric", "in place", "ordinary"};
  std::string text;
  for (const Subject& subject : subjects)
    text += fmt::format("{} {}, ", name_of(subject.collective), subject.algorithm);
  text += fmt::format("{} ranks, {} blocks of {}, {} elements, {}", ranks, shape.blocks,
                      shape.threads, fmt::join(counts, " "), places[static_cast<int>(where)]);
  if (grouped > 1) text += fmt::format(", groups of {}", grouped);
  if (age != 0) text += fmt::format(", after {} calls", age);
  if (stop) text += fmt::format(", rank {} stops after {} steps", stop->rank, stop->steps);
  return text;
}

void record_and_use(Communicator& comm, std::barrier<>& all, const std::function<void()>& record,
                    const std::function<void(model::Explorer&, model::Program&)>& use) {
  Recording& recording = Recording::instance();
  all.arrive_and_wait();
  if (comm.rank() == 0) recording.on = true;
  all.arrive_and_wait();
  bool refused = false;
  try {
    record();
  } catch (const Error&) {
    refused = true;
  }
  all.arrive_and_wait();
  if (comm.rank() == 0) {
    recording.on = false;
    if (!refused) {
      model::Explorer explorer(20'000);
      model::Program program = recording.program(explorer, [] { return std::string(); });
      use(explorer, program);
      program.reset();  // memory is as if nothing had been launched
    }
    recording.clear();
  }
  all.arrive_and_wait();
}

void with_programs(const std::vector<Scenario>& scenarios, const UseProgram& use) {
  const Scenario& first = scenarios.front();
  // Little more than the least, so that a few elements already take several rounds.
  const std::size_t scratch_bytes = std::size_t{first.age == 0 ? 2u : 4u} << 20;
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", std::to_string(scratch_bytes));
  Recording::instance().most = first.shape;
  std::barrier<> all(first.ranks);
  std::vector<const Rank*> members(static_cast<std::size_t>(first.ranks));
  const auto record = [&](Communicator& comm, const Scenario& s) {
    Rank its(comm, s, members);
    if (s.age != 0) make_old(comm, twin_of(s.subjects.front()), s.age, scratch_bytes);
    record_and_use(
        comm, all, [&] { its.record(); },
        [&](model::Explorer& explorer, model::Program& program) {
          program.stop = s.stop;
          use(s, explorer, program);
        });
  };
  run_ranks(first.ranks,
            [&](Communicator& comm, int) {
              for (const Scenario& scenario : scenarios) record(comm, scenario);
            },
            {.backend = BackendKind::cuda});
}

bool is_explored(const Subject& subject) {
  return subject.algorithm != "copy_engine" && !subject.algorithm.ends_with("_copy");
}
std::vector<Subject> explored_algorithms() {
  std::vector<Subject> explored = all_algorithms();
  for (const char* name : {"barrier", "dissemination"})
    explored.emplace_back(Collective::barrier, name);
  std::erase_if(explored, [](const Subject& subject) { return !is_explored(subject); });
  return explored;
}
bool fits(const Subject& subject, Where where) {
  if (where != Where::in_place) return true;
  switch (subject.collective) {
    case Collective::gather:
    case Collective::scatter:
    case Collective::send_recv:
    case Collective::barrier:
      return false;
    default:
      return true;
  }
}

}  // namespace plait::test
