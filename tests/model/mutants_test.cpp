// Is enough explored? Each ordering word of the kernels is weakened once, and must then be found.
#include "model/mutants.hpp"

#include "model/scenario.hpp"

namespace plait::test {
namespace {

/// Words that nothing needs here, and why they stay.
bool is_explained(const Mutant& mutant) {
  // The offer of a buffer is the first thing that a launch says of it, and the beginning of a
  // launch is a fence here. But it need not be one for peers on every device: a GPU may still hold
  // what an earlier kernel wrote into the buffer, and write it back over what a peer stores there.
  return mutant.file.ends_with("messages/pairwise/straight.hpp") &&
         line_of(mutant).find("dev_.signal(offers(") == 0;
}

TEST(MutantsOfAlgorithms, AreAllFound) {
  Mutants mutants;
  for (const int ranks : {3, 2, 4})
    for (const LaunchShape shape : {LaunchShape{1, 3}, LaunchShape{2, 2}}) {
      std::vector<Scenario> scenarios;
      for (const Subject& subject : explored_algorithms())
        for (const Where where : {Where::symmetric, Where::in_place, Where::ordinary})
          for (const int grouped : {1, 3}) {
            // With four ranks, what one has heard of another by a third matters.
            if (!fits(subject, where) || (ranks == 4 && subject.algorithm != "dissemination"))
              continue;
            // Slots of messages are larger, and take turns.
            const std::size_t many =
                subject.algorithm == "pairwise_push" && grouped == 1 ? 6000 : 100;
            scenarios.push_back({{subject}, ranks, shape, {40, 24, many, 8}, where, 4, grouped});
          }
      with_programs(scenarios, [&](const Scenario& scenario, model::Explorer& explorer,
                                   const model::Program& program) {
        SCOPED_TRACE(scenario.describe());
        mutants.look_at(explorer, program);
      });
    }
  mutants.expect_all_found(is_explained);
  EXPECT_GT(mutants.met(), 80u);
}

}  // namespace
}  // namespace plait::test
