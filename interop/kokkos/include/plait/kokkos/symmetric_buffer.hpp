// Symmetric memory as Kokkos views.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/communicator.hpp"
#include "plait/kokkos/spaces.hpp"

namespace Kokkos {
class CudaSpace;  // complete where Kokkos has CUDA
}

namespace plait::kokkos {

/// Makes the memory of a view symmetric: `Communicator::attach`, whose rules hold. `detach` ends
/// it, before the view's memory goes. Throws `Error(invalid_argument)` on this rank if the view has
/// gaps.
template <class View>
std::shared_ptr<Window> attach(Communicator& comm, const View& view) {
  if (!view.span_is_contiguous())
    throw Error(ErrorCode::invalid_argument, "attach: rank " + std::to_string(comm.rank()) +
                                                 ": the view " + view.label() + " has gaps");
  return comm.attach(view.data(), view.span() * sizeof(typename View::value_type));
}

namespace detail {

/// True if `Memory` belongs only to the host or only to a GPU, like symmetric memory: neither
/// managed memory nor a GPU's pinned memory.
template <class Memory>
constexpr bool is_of_one_side() {
  using Exec = typename Memory::execution_space;
  using Default = Kokkos::DefaultExecutionSpace;
  if constexpr (!runs_on_host<Exec>)
    return !Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, Memory>::accessible;
  else if constexpr (runs_on_host<Default> || std::is_same_v<Memory, Kokkos::HostSpace>)
    return true;
  else return !Kokkos::SpaceAccessibility<Default, Memory>::accessible;
}

template <class Exec>
constexpr bool has_managed_memory() {
  if constexpr (!runs_on_cuda<Exec>) return false;
  else
    return Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace,
                                      typename Exec::memory_space>::accessible;
}
/// The memory space of `Exec`; but CudaSpace instead of CudaUVMSpace, which it is with
/// Kokkos_ENABLE_CUDA_UVM. HIP has no such option.
template <class Exec>
using symmetric_memory_space =
    std::conditional_t<has_managed_memory<Exec>(), Kokkos::CudaSpace, typename Exec::memory_space>;

}  // namespace detail

/// `size()` elements of T on every rank, in symmetric memory (docs/symmetric-memory.md), zeroed.
/// Collectives on its views need no copies. `MemorySpace` is the memory space of the views:
/// CudaSpace or HIPSpace with a communicator on a GPU, HostSpace with one on the host; no managed
/// or pinned space, because symmetric memory is neither. Views do not own the memory and have no
/// label. Neither they nor the buffer may outlive the communicator. Can be moved, not copied.
template <class T,
          class MemorySpace = detail::symmetric_memory_space<Kokkos::DefaultExecutionSpace>>
class SymmetricBuffer {
  static_assert(detail::has_target<typename MemorySpace::execution_space>,
                "plait::kokkos: the memory space is neither on CUDA, nor on HIP, nor on the host");
  static_assert(detail::is_of_one_side<MemorySpace>(),
                "plait::kokkos: symmetric memory is a GPU's or the host's alone, and the memory "
                "space's views could be used on both");
  template <class Data, class Layout>
  using ViewOf = Kokkos::View<Data, Layout, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

 public:
  using memory_space = MemorySpace;
  using layout = typename MemorySpace::execution_space::array_layout;
  using view_type = ViewOf<T*, layout>;

  SymmetricBuffer() = default;
  /// Collective: all ranks of `comm` construct it, in the same order and with the same `count`.
  /// Throws `Error(invalid_argument)` if the memory space does not fit the communicator's target,
  /// and what `Communicator::allocate` throws.
  SymmetricBuffer(Communicator& comm, std::size_t count)
      : buffer_(checked(comm).template allocate<T>(count)) {}
  /// Frees the memory, and waits for this rank's device to do so. Not collective.
  ~SymmetricBuffer() = default;
  SymmetricBuffer(SymmetricBuffer&& other) noexcept : buffer_(std::exchange(other.buffer_, {})) {}
  SymmetricBuffer& operator=(SymmetricBuffer&& other) noexcept {
    buffer_ = std::exchange(other.buffer_, {});
    return *this;
  }

  T* data() const noexcept { return buffer_.data(); }
  std::size_t size() const noexcept { return buffer_.size(); }
  /// For `plait::view_of`.
  const Buffer<T>& buffer() const noexcept { return buffer_; }
  /// The whole buffer, as a view of rank 1.
  view_type view() const { return view_type(data(), size()); }
  /// The beginning of the buffer, with the extents of a type like `double**` or `float*[3]`:
  /// `view<double**>(rows, columns)`. Throws `Error(invalid_argument)` if the buffer has fewer
  /// elements.
  template <class Data, class Layout = layout, class... Extents>
  ViewOf<Data, Layout> view(Extents... extents) const {
    using View = ViewOf<Data, Layout>;
    constexpr bool type = std::is_same_v<typename View::non_const_value_type, T>;
    static_assert(type, "plait::kokkos: the view's value type is not the buffer's");
    if constexpr (type) {
      constexpr std::size_t dynamic = View::rank_dynamic, rank = View::rank;
      static_assert(sizeof...(Extents) >= dynamic && sizeof...(Extents) <= rank,
                    "plait::kokkos: an extent for each dimension that the view's type leaves open");
      check_extents<View>({static_cast<std::size_t>(extents)...});
      return View(data(), static_cast<std::size_t>(extents)...);
    } else {
      return {};
    }
  }

 private:
  /// Checks the given extents and those in the type, before there is a view, whose own product of
  /// extents could overflow.
  template <class View>
  void check_extents(std::initializer_list<std::size_t> given) const {
    std::vector<std::size_t> extents(given);
    for (std::size_t i = extents.size(); i < static_cast<std::size_t>(View::rank); ++i)
      extents.push_back(static_cast<std::size_t>(View::static_extent(static_cast<unsigned>(i))));
    std::size_t room = size();
    bool fits = true;
    std::string product;
    for (const std::size_t extent : extents) {
      if (extent == 0) return;
      fits = fits && extent <= room;
      room /= extent;
      product += (product.empty() ? "" : " x ") + std::to_string(extent);
    }
    if (!fits)
      throw Error(ErrorCode::invalid_argument, "SymmetricBuffer::view: " + product +
                                                   " elements were asked for, of " +
                                                   std::to_string(size()));
  }

  static Communicator& checked(Communicator& comm) {
    constexpr BackendKind kind = detail::backend_of<typename MemorySpace::execution_space>;
    if (kind != comm.backend_kind())
      throw Error(ErrorCode::invalid_argument,
                  "SymmetricBuffer: rank " + std::to_string(comm.rank()) + ": " +
                      MemorySpace::name() + " is memory on " + std::string(name_of(kind)) +
                      ", but the communicator is on " + std::string(name_of(comm.backend_kind())));
    return comm;
  }

  Buffer<T> buffer_;
};

}  // namespace plait::kokkos
