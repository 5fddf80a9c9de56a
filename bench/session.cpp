#include "bench/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "algorithms/contract/algorithm.hpp"
#include "bench/files.hpp"
#include "bench/peers/mpi.hpp"
#include "bench/verify.hpp"
#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

/// "all_reduce bf16 64K, ring"
std::string describe(const Result& result) {
  return fmt::format("{} {} {}, {}", name_of(result.call.collective), name_of(result.call.type),
                     format_bytes(result.bytes()), result.name);
}

}  // namespace

Session::Session(std::unique_ptr<Bootstrap> world, const Options& options)
    : options_(options),
      comm_(Communicator::create(std::move(world), {.backend = options.backend})),
      stream_(comm_.create_stream()),
      sizes_(sizes(options, comm_.backend_kind())),
      operations_(operations(options)),
      link_(measure_link(comm_, stream_.native())),
      timer_(comm_, stream_.native(), options),
      progress_(speaks() ? resolve(options.progress, stderr) : Progress::none, stderr) {
  agree(comm_.bootstrap(), "options", [&] {
    if (options_.root >= comm_.size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--root {}: there are {} ranks", options_.root, comm_.size()));
    check_threads();
    check_memory();
    if (!speaks()) return;
    check_writable(options_.json);
    check_writable(options_.csv);
    check_writable(options_.report);
  });
  if (options_.reserve) comm_.reserve();
  ceilings_ = measure_ceilings(comm_, stream_.native(), link_);
  add_plait();
  for (const std::string& peer : options_.peers) peer == "nccl" ? add_nccl() : add_mpi();
  warm_up_peers();
}

void Session::check_threads() const {
  const DeviceInfo& device = backend_of(comm_).info();
  if (options_.threads > device.facts.max_block_threads)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--threads {}: at most {} on {}", options_.threads,
                            device.facts.max_block_threads, name_of(device.backend)));
}

/// Checks the host only: it promises more memory than there is, and then kills a process. Devices
/// report that they run out of memory.
void Session::check_memory() const {
  if (comm_.backend_kind() != BackendKind::host) return;
  std::set<Memory> kinds(options_.memories.begin(), options_.memories.end());
  if (!options_.peers.empty()) kinds.insert(Memory::ordinary);
  const std::size_t buffers = static_cast<std::size_t>(comm_.size()) * kinds.size() * 2,
                    available = available_host_memory();
  if (arena_bytes() <= available / buffers) return;
  const auto gib = [](double bytes) { return bytes / (1 << 30); };
  throw Error(ErrorCode::invalid_argument,
              fmt::format("messages of up to {}: {} buffers of {} ranks would take {:.1f} GiB of "
                          "memory, and {:.1f} GiB are there",
                          format_bytes(sizes_.back()), buffers, comm_.size(),
                          gib(static_cast<double>(arena_bytes()) * static_cast<double>(buffers)),
                          gib(static_cast<double>(available))));
}

/// The buffers in this kind of memory. Collective at its first use.
const Arena& Session::arena(Memory memory) {
  auto& arena = arenas_[memory];
  if (!arena)
    arena = std::make_unique<Arena>(memory == Memory::symmetric  ? symmetric_memory(comm_)
                                    : memory == Memory::attached ? attached_memory(comm_)
                                                                 : ordinary_memory(comm_),
                                    arena_bytes());
  return *arena;
}
std::vector<std::size_t> Session::sizes_of(const Call& operation) const {
  return operation.collective == Collective::barrier ? std::vector<std::size_t>{0} : sizes_;
}

std::size_t Session::arena_bytes() const {
  const bool moves_data = std::any_of(operations_.begin(), operations_.end(), [](const Call& call) {
    return call.collective != Collective::barrier;
  });
  const std::size_t message = std::max(moves_data ? sizes_.back() : 0,
                                       largest_element * static_cast<std::size_t>(comm_.size()));
  return message + *std::max_element(options_.offsets.begin(), options_.offsets.end());
}

/// Adds the contender, once per --group value, with its message cut as the options say. False if
/// `make` returns none.
bool Session::add(const std::function<std::unique_ptr<Contender>()>& make) {
  for (const bool grouped : options_.grouped) {
    auto contender = make();
    if (!contender) return false;
    contenders_.push_back(options_.messages > 1 || grouped
                              ? cut(std::move(contender), options_.messages, grouped)
                              : std::move(contender));
  }
  return true;
}

void Session::add_plait() {
  for (const Memory memory : options_.memories)
    for (const std::string& algorithm : options_.algorithms)
      add([&] { return make_plait(comm_, algorithm, memory, arena(memory), options_); });
}

void Session::add_nccl() {
  std::string why_not;
  nccl_ = NcclGroup::create(comm_, why_not);
  if (!nccl_) return note_missing("nccl", why_not);
  add([&] { return nccl_->contender(Memory::ordinary, arena(Memory::ordinary)); });
  if (!nccl_->has_windows())
    return note_missing("nccl-symmetric", "this NCCL has no symmetric windows (2.27 is the first)");
  try {
    nccl_windows_ = std::make_unique<Arena>(nccl_->window_memory(), arena_bytes());
    add([&] { return nccl_->contender(Memory::symmetric, *nccl_windows_); });
  } catch (const Error& error) {
    note_missing("nccl-symmetric", error.what());
  }
}

void Session::add_mpi() {
  if (options_.devices > 0)
    return note_missing("mpi", "its ranks are processes, and with --devices they are threads");
  std::string why_not;
  // A call that is waited for runs on this thread, as a program calls MPI.
  const bool on_stream = options_.timing != Timing::latency && options_.timing != Timing::loop;
  const auto add_peer = [&](bool counted) {
    return add(
        [&] { return make_mpi_peer(comm_, arena(Memory::ordinary), on_stream, counted, why_not); });
  };
  if (!add_peer(false)) return note_missing("mpi", why_not);
  if (measures_counted(options_)) add_peer(true);
}

void Session::note_missing(const std::string& peer, const std::string& why_not) const {
  const bool fits = (comm_.backend_kind() == BackendKind::host) == (peer == "mpi");
  if (speaks() && (options_.peers_asked || fits))
    fmt::print("# peer {} is not measured: {}\n", peer, why_not);
}

Task Session::task_for(const Contender& contender, const Call& operation, std::size_t bytes,
                       bool in_place, std::size_t offset) const {
  return contender.task_for(operation, bytes, in_place, comm_.rank(), comm_.size(), offset);
}

/// Peers allocate, connect and load kernels in the first call of each kind. That must not happen
/// while a call is timed or a kernel spins.
void Session::warm_up_peers() {
  for (const auto& contender : contenders_) {
    if (!contender->is_peer()) continue;
    for (const Call& operation : operations_)
      for (const std::size_t bytes : sizes_of(operation))
        for (const bool in_place : options_.in_place) {
          if (in_place && !has_in_place(operation.collective)) continue;
          try {
            contender->enqueue(task_for(*contender, operation, bytes, in_place, 0),
                               stream_.native());
          } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported) throw;
          }
          comm_.synchronize(stream_);
        }
  }
}

/// The tasks that calls take in turn: one, or one for each root.
std::vector<Task> Session::turns_of(const Contender& contender, const Task& task) const {
  std::vector<Task> turns{task};
  if (!options_.rotates_root || !facts_of(task.call.collective).rooted) return turns;
  Call call = task.call;
  for (int next = 1; next < comm_.size(); ++next) {
    call.root = (task.call.root + next) % comm_.size();
    turns.push_back(task_for(contender, call, call.bytes(), task.in_place, task.offset));
  }
  return turns;
}

/// What a measurement of this task will be, still without times.
Result Session::planned(const Contender& contender, const Task& task) const {
  Result result;
  result.name = contender.name();
  result.call = task.call;
  result.ranks = comm_.size();
  result.in_place = task.in_place;
  result.offset = task.offset;
  result.memory = contender.memory();
  result.timing = options_.timing;
  return result;
}

std::vector<Result> Session::all_planned() {
  std::vector<Result> all;
  for (const Call& operation : operations_)
    for (const std::size_t bytes : sizes_of(operation))
      for_each_task(operation, bytes, [&](Contender& contender, const Task& task) {
        all.push_back(planned(contender, task));
      });
  return all;
}

/// Takes over the results that the file of an earlier run has. Rank 0 alone reads it, so all ranks
/// measure the same even if they don't share the file. Collective.
void Session::take_over_earlier(const Machine& machine) {
  std::string text;
  agree(comm_.bootstrap(), "options", [&] {
    if (speaks()) text = read_earlier(options_.json);
  });
  text.resize(comm_.bootstrap().broadcast(text.size(), 0));
  comm_.bootstrap().broadcast(text.data(), text.size(), 0);
  results_ = take_over(text, options_.json, machine, all_planned());
  for (const Result& result : results_) taken_over_.insert(key_of(result));
}

/// False if there is no new result: the contender can't serve this call, or an earlier run has
/// measured it.
bool Session::measure(Contender& contender, const Task& task) {
  Result result = planned(contender, task);
  if (taken_over_.contains(key_of(result))) return false;
  progress_.begin(result.bytes(), describe(result));
  const std::vector<Task> turns = turns_of(contender, task);
  for (const Task& turn : turns) fill_input(comm_, stream_.native(), turn, ++seed_);
  std::size_t next = 0;
  try {
    result.chosen = contender.chosen(task);
    result.times = timer_.measure(
        [&](NativeStream stream) { contender.enqueue(turns[next++ % turns.size()], stream); },
        task.call.bytes());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    refusal_ = error.what();
    return false;
  }
  result.repeats = options_.repeats;
  result.calls = timer_.calls();
  const Algorithm* const algorithm = Registry::instance().find(
      result.chosen.empty() ? result.name : result.chosen, task.call.collective);
  const bool can_check = (result.moves_data() || comm_.bootstrap().nodes() == 1) &&
                         (algorithm == nullptr || !algorithm->is_lossy());
  if (options_.check && can_check) {
    result.wrong = 0;
    for (const Task& turn : turns)
      *result.wrong += count_wrong(comm_, stream_.native(), contender, turn, ++seed_);
  }
  progress_.hide();
  if (speaks() && options_.table) print_result(stdout, result, ceilings_, options_.statistics);
  results_.push_back(std::move(result));
  return true;
}

/// Visits what is to be measured at one size, in the order of the table.
void Session::for_each_task(const Call& operation, std::size_t bytes,
                            const std::function<void(Contender&, const Task&)>& visit) {
  // A barrier has no buffers, so Plait's is the same for each kind of memory and each offset.
  const bool is_barrier = operation.collective == Collective::barrier;
  const auto is_again = [&](const Contender& contender) {
    return is_barrier && !contender.is_peer() && contender.memory() != options_.memories.front();
  };
  const auto offsets = is_barrier ? std::vector<std::size_t>{0} : options_.offsets;
  for (const bool in_place : options_.in_place)
    for (const std::size_t offset : offsets)
      for (const auto& contender : contenders_)
        if (contender->may_serve(operation.collective) && !is_again(*contender) &&
            (!in_place || has_in_place(operation.collective)))
          visit(*contender, task_for(*contender, operation, bytes, in_place, offset));
}

void Session::measure_size(const Call& operation, std::size_t bytes) {
  const std::size_t first = races_.size();
  bool any = false;
  for_each_task(operation, bytes, [&](Contender& contender, const Task& task) {
    any |= measure(contender, task);
    const Race race = race_of(planned(contender, task));
    if (!contender.is_peer() && std::find(races_.begin(), races_.end(), race) == races_.end())
      races_.push_back(race);
  });
  if (!speaks()) return;
  progress_.hide();
  if (!options_.table) print_rows(first);
  else if (any) std::puts("");
}

/// Prints the rows of the races from the `first` on.
void Session::print_rows(std::size_t first) const {
  for (std::size_t i = first; i < races_.size(); ++i)
    print_row(stdout, races_[i], results_, options_);
}

/// Writes the results so far. `early` means that a later call will overwrite them, so this skips
/// pipes and terminals, which can't be overwritten.
void Session::write_files(const Machine& machine, bool early) const {
  const auto wanted = [early](const std::string& path) {
    return !path.empty() && (!early || std::filesystem::is_regular_file(path));
  };
  if (wanted(options_.json)) write_json(options_.json, machine, results_);
  if (wanted(options_.csv)) write_csv(options_.csv, machine, results_);
  if (wanted(options_.report)) write_report(options_.report, machine, results_);
}

std::size_t Session::run() {
  Machine machine = describe_machine(comm_);
  if (nccl_) machine.nccl_version = nccl_->library().version_text();
  machine.link = link_;
  machine.ceilings = ceilings_;
  machine.command_line = options_.command_line;
  machine.settings = settings(options_);
  if (options_.resume) take_over_earlier(machine);
  if (speaks() && options_.resume)
    fmt::print("# taken over, not measured again: {} results of {}\n", taken_over_.size(),
               in_quotes(options_.json));
  if (speaks()) print_header(stdout, machine, options_);
  for (const Result& result : all_planned())
    if (!taken_over_.contains(key_of(result))) progress_.expect(result.bytes());
  for (const Call& operation : operations_)
    for (const std::size_t bytes : sizes_of(operation)) {
      measure_size(operation, bytes);
      if (!speaks()) continue;
      std::fflush(stdout);
      try {
        write_files(machine, true);  // so a run that is killed later leaves its results
      } catch (const Error&) {
        // The measurements go on, and the table is still printed. If the file can't be written at
        // the end either, that is an error.
      }
    }
  progress_.end();
  if (results_.empty())
    throw Error(ErrorCode::unsupported, fmt::format("nothing can be measured: {}", refusal_));
  if (speaks()) {
    if (options_.table) {
      print_row_names(stdout, machine, options_);
      print_rows(0);
    }
    print_verdict(stdout, results_);
    // Flush first, so that the table is not lost if a file can't be written.
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    write_files(machine, false);
    if (!written) throw Error(ErrorCode::backend, "can't write the table to standard output");
  }
  return total_wrong(results_);
}

}  // namespace plait::bench
