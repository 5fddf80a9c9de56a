#include "interop/nccl/async_jobs.hpp"

#include <algorithm>
#include <string>
#include <thread>

#include "core/start_thread.hpp"
#include "interop/nccl/errors.hpp"

namespace plait::nccl {
namespace {

constexpr const char* thread_name = "a thread for the calls of a communicator";

struct Outcome {
  Result result = Result::success;
  std::string sentence;
};

/// The jobs of one communicator. The first error counts, and the jobs behind it are dropped.
struct Chain {
  std::vector<Job> jobs;
  bool is_taken = false;  // for the first job
  bool waits() const {
    return std::any_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.blocking; });
  }

  Outcome perform() {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      Job& job = jobs[i];
      const Result result = guarded(job.call, [&] {
        try {
          if (job.takes && !(is_taken && i == 0)) job.of->take(job.call, waits());
          job.body();
        } catch (const std::exception& error) {
          const auto* const own = dynamic_cast<const Error*>(&error);
          job.drop(own != nullptr ? *own : Error(ErrorCode::backend, error.what()));
          throw;
        }
      });
      if (result == Result::success) continue;
      Outcome failed{result, last_sentence()};
      const Error error(
          ErrorCode::aborted,
          "a job before this one of the same communicator failed: " + failed.sentence);
      for (std::size_t rest = i + 1; rest < jobs.size(); ++rest) jobs[rest].drop(error);
      return failed;
    }
    return {};
  }
};

using Chains = std::vector<std::shared_ptr<Chain>>;

Chains chains_of(std::vector<Job> jobs) {
  Chains chains;
  for (Job& job : jobs) {
    auto chain = std::find_if(chains.begin(), chains.end(),
                              [&](const auto& other) { return other->jobs.front().of == job.of; });
    if (chain == chains.end()) chain = chains.insert(chain, std::make_shared<Chain>());
    (*chain)->jobs.push_back(std::move(job));
  }
  return chains;
}

}  // namespace

Result run(std::vector<Job> jobs) noexcept {
  Outcome first;
  bool waits_for_all = true;
  const Result made = guarded("ncclGroupEnd", [&] {
    const Chains chains = chains_of(std::move(jobs));
    std::vector<Outcome> outcomes(chains.size());
    std::vector<std::thread> threads;
    threads.reserve(chains.size());
    const auto note = [&](Outcome outcome) {
      if (first.result == Result::success) first = std::move(outcome);
    };
    for (std::size_t i = 0; i < chains.size(); ++i) {
      const std::shared_ptr<Chain>& chain = chains[i];
      const Job& front = chain->jobs.front();
      const bool waits = chain->waits();
      const Result started = guarded(front.call, [&] {
        // On this thread, so that the communicator is busy when a call that does not wait returns.
        if (front.takes) front.of->take(front.call, waits), chain->is_taken = true;
        if (waits) {
          threads.push_back(start_thread(
              thread_name, [&chain, &outcome = outcomes[i]] { outcome = chain->perform(); }));
        } else {
          start_thread(thread_name, [chain] { static_cast<void>(chain->perform()); }).detach();
          waits_for_all = false;
        }
      });
      if (started == Result::success) continue;
      note({started, last_sentence()});
      if (chain->is_taken) front.of->occupy([](Communicator&) {});
      for (const Job& job : chain->jobs) job.drop(Error(ErrorCode::aborted, last_sentence()));
    }
    for (std::thread& thread : threads) thread.join();
    for (Outcome& outcome : outcomes)
      if (outcome.result != Result::success) note(std::move(outcome));
  });
  if (made != Result::success) return made;
  if (first.result != Result::success) return fail(first.result, first.sentence);
  return waits_for_all ? Result::success : Result::in_progress;
}

}  // namespace plait::nccl
