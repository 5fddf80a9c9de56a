// One run of the benchmark: its contenders, their memory and the sizes.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/contender.hpp"
#include "bench/options.hpp"
#include "bench/peers/nccl.hpp"
#include "bench/progress.hpp"
#include "bench/results.hpp"
#include "bench/table.hpp"
#include "bench/timing.hpp"
#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

class Session {
 public:
  /// Creates the communicator of these ranks, the buffers and the contenders. Collective.
  Session(std::unique_ptr<Bootstrap> world, const Options& options);
  /// Measures and reports; returns the number of wrong elements. Collective.
  std::size_t run();

 private:
  bool add(const std::function<std::unique_ptr<Contender>()>& make);
  void check_threads() const;
  void check_memory() const;
  void add_plait();
  void add_nccl();
  void add_mpi();
  void note_missing(const std::string& peer, const std::string& why_not) const;
  const Arena& arena(Memory memory);
  void warm_up_peers();
  std::vector<Task> turns_of(const Contender& contender, const Task& task) const;
  Result planned(const Contender& contender, const Task& task) const;
  void take_over_earlier(const Machine& machine);
  void for_each_task(const Call& operation, std::size_t bytes,
                     const std::function<void(Contender&, const Task&)>& visit);
  void measure_size(const Call& operation, std::size_t bytes);
  void print_rows(std::size_t first) const;
  bool measure(Contender& contender, const Task& task);
  std::vector<Result> all_planned();
  void write_files(const Machine& machine, bool early) const;
  Task task_for(const Contender& contender, const Call& operation, std::size_t bytes, bool in_place,
                std::size_t offset) const;
  std::size_t arena_bytes() const;
  /// A barrier has one, 0.
  std::vector<std::size_t> sizes_of(const Call& operation) const;
  bool speaks() const { return comm_.rank() == 0; }

  const Options options_;
  Communicator comm_;
  Stream stream_;
  std::vector<std::size_t> sizes_;
  std::vector<Call> operations_;
  Link link_;
  Ceilings ceilings_;
  std::shared_ptr<NcclGroup> nccl_;
  std::map<Memory, std::unique_ptr<Arena>> arenas_;
  std::unique_ptr<Arena> nccl_windows_;
  Contenders contenders_;
  Timer timer_;
  std::vector<Result> results_;
  std::vector<Race> races_;           // in the order of their rows
  std::set<std::string> taken_over_;  // keys of those results that an earlier run has measured
  std::string refusal_;               // the reason of the last contender that can't serve a call
  std::uint32_t seed_ = 0;
  ProgressReport progress_;
};

}  // namespace plait::bench
