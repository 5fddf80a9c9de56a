// A target's answers before it has a stream: its devices, and its kernels.
#include <gtest/gtest.h>

#include "backends/backend.hpp"
#include "plait/error.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

TEST(Backends, SayWhyTheyHaveNoDevice) {
  for (const BackendKind kind : {BackendKind::host, BackendKind::cuda, BackendKind::hip}) {
    if (device_count(kind) > 0) {
      EXPECT_TRUE(is_built(kind));
      EXPECT_EQ(why_no_device(kind), "");
    } else {
      EXPECT_NE(why_no_device(kind), "");
      EXPECT_THROW(open_backend(kind, 0), Error);
    }
  }
  if (target() == BackendKind::host) return;  // every rank of the host has its own device
  EXPECT_THROW(open_backend(target(), 1000), Error);
  EXPECT_THROW(open_backend(target(), -1), Error);
}

TEST(Backends, HaveAKernelForEveryTypeOfEveryAlgorithm) {
  const auto backend = open_backend(target(), 0);
  for (const char* family : {"copy_engine", "oneshot_ll", "recursive_doubling", "ring", "twoshot"})
    for (int type = 0; type < data_type_count; ++type)
      EXPECT_NE(backend->find_kernel(family, static_cast<DataType>(type)), nullptr)
          << family << " " << name_of(static_cast<DataType>(type));
  EXPECT_EQ(backend->find_kernel("no such family", DataType::f32), nullptr);
}

}  // namespace
}  // namespace plait::test
