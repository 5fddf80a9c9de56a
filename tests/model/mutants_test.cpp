// Is enough explored? Each ordering word of the kernels is weakened once, and must then be found.
#include "model/mutants.hpp"

#include "model/scenario.hpp"

namespace plait::test {
namespace {

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
  mutants.expect_all_found();
  EXPECT_GT(mutants.met(), 80u);
}

}  // namespace
}  // namespace plait::test
