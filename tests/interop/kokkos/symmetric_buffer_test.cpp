// Views of symmetric memory.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <memory>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "errors.hpp"
#include "values.hpp"

namespace plait::test {
namespace {

TEST(SymmetricBuffer, ReceivesMessagesStraight) {
  const kokkos::SymmetricBuffer<float, Kokkos::HostSpace> buffer(comm(), 60);
  const Kokkos::View<float*, Kokkos::HostSpace> src("src", 60);
  const auto dst = buffer.view<float*>(60);
  fill(src);
  kokkos::send_recv(comm(), src, next(), dst, previous(),
                    {.algorithm = "pairwise_put", .symmetric = true});
  expect(dst, "send_recv by pairwise_put", of(static_cast<std::size_t>(previous())));
}

/// Of ordinary memory, which processes can read, or are told that they can't.
TEST(SymmetricBuffer, AViewsMemoryIsAttached) {
  const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> view("view", 16, 60);
  const auto gaps = Kokkos::subview(view, Kokkos::ALL, std::make_pair(0, 30));
  EXPECT_EQ(error_of([&] { kokkos::attach(comm(), gaps); }),
            from("attach") + "the view view has gaps");
  std::shared_ptr<Window> window;
  try {
    window = kokkos::attach(comm(), view);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
  }
  const Kokkos::View<float*, Kokkos::HostSpace> row(&view(3, 0), 60);
  fill(row);
  kokkos::send_recv(comm(), row, next(), Kokkos::View<float*, Kokkos::HostSpace>(&view(4, 0), 60),
                    previous());
  expect(Kokkos::View<float*, Kokkos::HostSpace>(&view(4, 0), 60), "send_recv",
         of(static_cast<std::size_t>(previous())));
  if (window != nullptr) comm().detach(window);
}

TEST(SymmetricBuffer, HasViewsThatNeedNoCopies) {
  kokkos::SymmetricBuffer<float, Kokkos::HostSpace> buffer(comm(), 60);
  const auto view = buffer.view();
  ASSERT_EQ(view.size(), 60u);
  EXPECT_EQ(view.data(), buffer.data());
  EXPECT_TRUE(comm().is_symmetric(view.data(), view.size() * sizeof(float)));
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(view(i), 0.0f);
  const auto matrix = buffer.view<float**>(12, 5);
  const auto left = buffer.view<float* [5], Left>(6);
  EXPECT_EQ(&matrix(1, 0), buffer.data() + 5);
  EXPECT_EQ(&left(0, 1), buffer.data() + 6);
  Kokkos::deep_copy(matrix, 2.0f);
  kokkos::all_reduce(comm(), matrix, ReduceOp::sum, {.algorithm = "twoshot"});
  EXPECT_EQ(matrix(11, 4), 2.0f * static_cast<float>(comm().size()));

  const kokkos::SymmetricBuffer<float, Kokkos::HostSpace> moved = std::move(buffer);
  EXPECT_EQ(moved.data(), view.data());
  EXPECT_EQ(buffer.data(), nullptr);  // NOLINT(bugprone-use-after-move): it is empty then
  EXPECT_EQ(buffer.size(), 0u);       // NOLINT(bugprone-use-after-move)
  static_assert(!std::is_copy_constructible_v<kokkos::SymmetricBuffer<float>>);
}

TEST(SymmetricBuffer, RefusesViewsThatAreLarger) {
  const kokkos::SymmetricBuffer<float, Kokkos::HostSpace> buffer(comm(), 60);
  EXPECT_EQ(error_of([&] { buffer.view<float**>(12, 6); }),
            "SymmetricBuffer::view: 12 x 6 elements were asked for, of 60");
  EXPECT_EQ(error_of([&] { buffer.view<float* [7]>(9); }),
            "SymmetricBuffer::view: 9 x 7 elements were asked for, of 60");
  // The product is 0 in 64 bits.
  EXPECT_EQ(error_of([&] {
              buffer.view<float**, Kokkos::LayoutLeft>(std::size_t{1} << 33, std::size_t{1} << 31);
            }),
            "SymmetricBuffer::view: 8589934592 x 2147483648 elements were asked for, of 60");
  EXPECT_EQ(error_of([&] { buffer.view<float*>(-1); }),
            "SymmetricBuffer::view: 18446744073709551615 elements were asked for, of 60");
  EXPECT_EQ(buffer.view<float**>(std::size_t{1} << 33, 0).size(), 0u);
  EXPECT_EQ(buffer.view<float* [6]>(10).span(), 60u);
}

/// Like a GPU's execution space whose default memory is managed: Kokkos can be built so.
struct WithManagedMemory {
  struct Managed {};
  using memory_space = Managed;
  CUstream_st* cuda_stream() const { return nullptr; }
};
}  // namespace
}  // namespace plait::test
template <>
struct Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace,
                                  plait::test::WithManagedMemory::Managed> {
  enum : bool { accessible = true };
};
namespace plait::test {
namespace {
static_assert(std::is_same_v<kokkos::detail::symmetric_memory_space<Exec>, Exec::memory_space>);
static_assert(
    std::is_same_v<kokkos::detail::symmetric_memory_space<WithManagedMemory>, Kokkos::CudaSpace>);

}  // namespace
}  // namespace plait::test
