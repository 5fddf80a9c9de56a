#include "communicator/selection/choice_log.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "core/float_environment.hpp"
#include "core/log.hpp"

namespace plait {
namespace {

/// Equal for sizes with the same power of two below them.
int size_class(const Call& call) { return static_cast<int>(std::bit_width(call.bytes())); }

}  // namespace

/// Whether the choice has no line yet and may have one.
bool ChoiceLog::is_new(Key key) {
  if (said_.size() >= most_lines || !said_.insert(std::move(key)).second) return false;
  if (said_.size() < most_lines) return true;
  write(fmt::format("{} distinct choices so far, further ones have no lines", most_lines));
  return false;
}

void ChoiceLog::write(std::string_view text) const {
  log::say_choice(fmt::format("rank {} of {}: {}", rank_, ranks_, text));
}

void ChoiceLog::note(const Call& call, const CallOptions& options, const Choice& choice) {
  if (!is_new({call.collective, call.type, call.op, where_is(call), size_class(call),
               options.blocks, options.threads, options.algorithm, choice.algorithm,
               choice.rule + choice.rule_text}))
    return;
  const FloatEnvironment defaults;  // estimates are compared
  write(selector_.explain_shortly(call, choice));
}

void ChoiceLog::note_batch(const Call& all, const Algorithm& algorithm) {
  if (!is_new({all.collective,
               all.type,
               all.op,
               where_is(all),
               size_class(all),
               0,
               0,
               {},
               &algorithm,
               "group"}))
    return;
  write(fmt::format("calls of a group, {} of {} x {} ({} bytes) together: one launch of {}",
                    name_of(all.collective), all.count, name_of(all.type), all.bytes(),
                    algorithm.name()));
}

}  // namespace plait
