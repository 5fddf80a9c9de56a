// Communicators are made: whole, and as parts and duplicates of others.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "communicator/calibration/calibration.hpp"
#include "communicator/calibration/calm_machine.hpp"
#include "communicator/communicator_state.hpp"
#include "core/float_environment.hpp"
#include "core/log.hpp"
#include "core/standard_fds.hpp"
#include "plait/communicator.hpp"
#include "plait/unique_id.hpp"

namespace plait {

Communicator Communicator::create(std::unique_ptr<Bootstrap> bootstrap,
                                  const CommunicatorOptions& options) {
  if (bootstrap == nullptr)
    throw Error(ErrorCode::invalid_argument, "creating a communicator: the bootstrap is null");
  // Settings with fractions are compared, and some of the threads that are started here compute.
  const FloatEnvironment defaults;
  const StandardFdsTaken taken;  // drivers open files, too
  Communicator comm(std::make_unique<CommunicatorState>(std::move(bootstrap), options));
  comm.calibrate(true);
  log::info("{}", comm.describe());
  return comm;
}

Communicator make_communicator(const UniqueId& id, int rank, int size,
                               const CommunicatorOptions& options) {
  return Communicator::create(make_socket_bootstrap(id, rank, size, options.timeout), options);
}

Communicator make_world_communicator(const CommunicatorOptions& options) {
  return Communicator::create(make_world_bootstrap(options.timeout), options);
}

namespace {

/// Makes the part of `parent` that `bootstrap` connects. Errors have the part's numbers of ranks,
/// which the user does not know yet, so the parent's numbers go in front of them.
std::unique_ptr<CommunicatorState> make_part(const CommunicatorState& parent,
                                             std::unique_ptr<Bootstrap> bootstrap) {
  CommunicatorOptions options = parent.resources.made_with;
  options.timeout = parent.resources.settings.timeout;
  const auto part = name_part(bootstrap->parent_ranks());
  const FloatEnvironment defaults;
  const StandardFdsTaken taken;
  try {
    return std::make_unique<CommunicatorState>(std::move(bootstrap), options, &parent);
  } catch (const Error& error) {
    if (!part || parent.faults.tell_error())
      throw;  // the parent's own error has the parent's numbers
    throw Error(error.code(), fmt::format("{}: {}", *part, error.what()));
  }
}

constexpr const char* measuring = "calibration";

}  // namespace

std::optional<Communicator> Communicator::divide(const char* what, int color, int key) {
  CommunicatorState& own = state(what);
  const InUse::Scope inside(own.resources.in_use, what);
  own.faults.throw_if_broken();
  Bootstrap& bootstrap = *own.resources.bootstrap;
  auto group = on_behalf_of(bootstrap, what, [&] { return bootstrap.split(color, key); });
  if (color < 0) return std::nullopt;
  Communicator part(make_part(own, std::move(group)));
  if (what != measuring) part.calibrate(false);
  log::info("{}", part.describe());
  own.resources.watchdog->add_child(part.state_->resources.watchdog);
  return part;
}

/// Gives the selection the times that were measured on this machine: those of PLAIT_TUNING, of
/// plait-tune, and of an earlier calibration. If there are none, and the built-in table has no
/// rules for these GPUs either, it measures some. Those calls are made in a duplicate, so that this
/// communicator is as new afterwards.
///
/// `may_measure` is false for a part of a communicator: programs that make parts don't expect that
/// to take long. A file of PLAIT_TUNING may be for the whole, so it is passed over there.
/// Nothing is measured where each call is compared, which takes time, or traced, because the trace
/// would show it. Nor is it beside other communicators on a device: calls of three that nothing
/// orders may wait for each other for ever (docs/invariants.md).
void Communicator::calibrate(bool may_measure) {
  CommunicatorResources& own = state_->resources;
  const Calibration wish = own.settings.calibration;
  const Topology& topology = own.selector.topology();
  const auto& tuning = own.settings.tuning;
  const std::string machine = describe_for_calibration(own.backend->info(), topology);
  if (tuning && tuning->has_times()) {
    try {
      own.selector.add_times(tuning_variable, times_of(*tuning, *own.bootstrap, machine));
    } catch (const Error& error) {
      if (may_measure || error.code() != ErrorCode::invalid_argument) throw;
      log::info("passed over for a part of a communicator: {}", error.what());
    }
  }
  if (wish == Calibration::off || own.size() == 1 || own.nodes.are_several()) return;
  const bool known = topology.backend != BackendKind::host && own.selector.has_builtin_rules(),
             asked = wish == Calibration::again,
             alone = !own.settings.check_calls && !own.settings.trace;
  const auto measure = [&] {
    const auto on_device = own.bootstrap->all_gather(own.backend->use().communicators.load());
    if (*std::max_element(on_device.begin(), on_device.end()) > 1) {
      log::info("calibration: not measured: there is another communicator on a device");
      return std::vector<MeasuredCall>();
    }
    try {
      Communicator other = *divide(measuring, 0, own.rank());
      other.state_->path.preparer().say_no_choices();
      return measure_on_calm_machine(other, topology, machine, asked);
    } catch (const Error& error) {  // on all ranks
      if (error.code() != ErrorCode::out_of_memory && error.code() != ErrorCode::timeout) throw;
      log::info("calibration: not measured: {}", error.what());
      return std::vector<MeasuredCall>();
    }
  };
  KeptTimes times =
      kept_times(*own.bootstrap, topology,
                 {.machine = machine,
                  .order = own.selector.order(),
                  .wish = wish,
                  .may_measure = alone && (asked || (may_measure && !known && !tuning))},
                 measure);
  own.selector.add_times("plait-tune", std::move(times.tuned));
  own.selector.add_times("calibration", std::move(times.calibration));
}

std::optional<Communicator> Communicator::split(int color, int key) {
  return divide("split", color, key);
}
Communicator Communicator::duplicate() {
  return *divide("duplicate", 0, state("duplicate").resources.rank());
}

}  // namespace plait
