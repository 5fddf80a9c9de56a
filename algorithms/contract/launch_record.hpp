// The launch of a call, kept so that the same call can repeat it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "backends/backend.hpp"

namespace plait {

/// The launch of a call that makes one launch and nothing else, whose arguments hold all of its
/// work. Every later call with the same arguments may repeat it, as every replay of a graph repeats
/// its launches.
class LaunchRecord {
 public:
  void clear() {
    launches_ = items_ = 0;
    is_all_ = true;
  }
  /// Without memory for the arguments, the launch can't be repeated. That is no error, because it
  /// has been enqueued.
  void add(KernelHandle kernel, LaunchShape shape, std::span<const std::byte> args,
           std::size_t unused) noexcept try {
    if (++launches_ != 1) return;
    kernel_ = kernel;
    shape_ = shape;
    used_ = args.size() - unused;
    args_.assign(args.begin(), args.end());
  } catch (const std::bad_alloc&) {
    spoil();
  }
  /// The launch has `items` items of work in its arguments.
  void add_items(std::size_t items) { items_ += items; }
  /// The call does more than this launch, or has work outside of its arguments.
  void spoil() noexcept { is_all_ = false; }

  bool can_be_repeated() const { return is_all_ && launches_ == 1; }
  KernelHandle kernel() const { return kernel_; }
  LaunchShape shape() const { return shape_; }
  /// Those that the kernel reads. The memory there has room for all.
  std::span<const std::byte> args() const { return {args_.data(), used_}; }
  std::size_t items() const { return items_; }

 private:
  std::size_t launches_ = 0, items_ = 0;
  bool is_all_ = true;
  KernelHandle kernel_ = nullptr;
  LaunchShape shape_{};
  std::vector<std::byte> args_;
  std::size_t used_ = 0;
};

}  // namespace plait
