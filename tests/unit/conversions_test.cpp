// Targets convert the small floats with instructions of their own: to the same bits as the portable
// code, which numeric_test.cpp compares with the tables of the formats. On a GPU for every number
// that f32 has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/ranks.hpp"
#include "unit/conversions/kernel.hpp"

namespace plait::test {
namespace {

class Conversions : public testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(All, Conversions,
                         testing::Values(DataType::f16, DataType::bf16, DataType::f8e4m3,
                                         DataType::f8e5m2),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(Conversions, AreThoseOfThePortableCode) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(1);
  const auto backend = open_backend(target(), 0);
  const DeviceScope device(*backend);
  const bool gpu = target() != BackendKind::host;
  const LaunchShape shape = gpu ? LaunchShape{256, 256} : LaunchShape{2, 2};
  const std::size_t words = std::size_t{shape.blocks} * shape.threads * 2;
  auto* const wrong = static_cast<std::uint32_t*>(backend->allocate(words * sizeof(std::uint32_t)));
  backend->fill(wrong, 0xff, words * sizeof(std::uint32_t), nullptr);

  const KernelHandle kernel = backend->find_kernel("conversions", GetParam());
  ASSERT_NE(kernel, nullptr);
  const conversions::Args args{
      .inputs = std::uint64_t{1} << (gpu ? 32 : 22),
      .spacing = gpu ? 1u : 0x9e3779b1u /* spreads them over all numbers */,
      .wrong = wrong};
  backend->launch(kernel, shape, &args, sizeof(args), Watch{}, nullptr);
  std::vector<std::uint32_t> found(words);
  backend->copy(found.data(), wrong, words * sizeof(std::uint32_t), nullptr);
  backend->synchronize(nullptr);
  backend->deallocate(wrong);
  for (std::size_t i = 0; i < words; i += 2)
    ASSERT_EQ(found[i], 0u) << fmt::format("conversions of thread {}, for example that of {:#x}",
                                           i / 2, found[i + 1]);
}

}  // namespace
}  // namespace plait::test
