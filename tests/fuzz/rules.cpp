// PLAIT_ALGO: rules in any text.
#include <string>

#include "communicator/selection/selection.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plait;  // NOLINT(google-build-using-namespace): one function
  const std::string text(reinterpret_cast<const char*>(data), size);
  RuleList rules;
  if (!fuzz::succeeds([&] { rules = RuleList(text, "PLAIT_ALGO"); })) return 0;
  for (int collective = 0; collective < collective_count; ++collective)
    for (const bool symmetric : {false, true}) {
      Call call{.collective = static_cast<Collective>(collective),
                .type = DataType::u8,
                .count = 4096,
                .symmetric = symmetric};
      const Rule* rule = rules.match(call);
      if (rule == nullptr) continue;
      fuzz::require(rule->from <= call.bytes() && call.bytes() < rule->to,
                    "a rule that matches has the size in its range", text);
      fuzz::require(Registry::instance().find(rule->algorithm, call.collective) != nullptr,
                    "a rule names an algorithm that there is", text);
    }
  // The same rules again, between blanks and empty rules.
  fuzz::require(fuzz::succeeds([&] { RuleList("\r\n ;\t" + text + "\r;", "PLAIT_ALGO"); }),
                "blanks mean nothing", text);
  return 0;
}
