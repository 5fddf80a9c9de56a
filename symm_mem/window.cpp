#include "symm_mem/window.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "bootstrap/bootstrap_hooks.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"
#include "symm_mem/descriptor_exchange.hpp"

namespace plait {

Window::~Window() {
  if (!origin_.is_here()) {
    keep_for_ever(std::move(backend_));
    keep_for_ever(std::move(range_));
    keep_for_ever(std::move(table_));
    return;
  }
  unmap();
}

void Window::enter(std::shared_ptr<WindowTable> table) {
  table_ = std::move(table);
  table_->add(number_, {local_, bytes_, attachment_ ? attachment_->memory : 0});
}

bool Window::withdraw() {
  if (table_ == nullptr) return false;
  std::exchange(table_, nullptr)->remove(number_);
  return true;
}

void Window::unmap() {
  if (range_ == nullptr && table_ == nullptr) return;
  try {
    const DeviceScope device(*backend_);
    // No kernel of this rank uses the mappings any more, or waits for a peer that does.
    backend_->synchronize_device();
    if (withdraw()) backend_->synchronize_device();  // nor does a copy of the proxy's
    if (attachment_ && captured_.load(std::memory_order_relaxed) && range_ != nullptr)
      attachment_->kept->push_back(std::move(range_));
    range_.reset();
  } catch (const std::exception&) {
    // A stream is being captured, or the device is lost. A kernel may still use the mapping, so it
    // stays for good.
    withdraw();
    keep_for_ever(std::move(range_));
  }
}

std::pair<std::byte*, std::int32_t> Window::elsewhere(int peer) const {
  const MemoryOffer& offer = attachment_->offers[static_cast<std::size_t>(peer)];
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process
  return {reinterpret_cast<std::byte*>(offer.address), offer.ordinal};
}

bool Window::is_stale() const {
  if (!attachment_ || attachment_->memory == 0) return false;
  const DeviceScope device(*backend_);
  return backend_->memory_number(local_, bytes_) != attachment_->memory;
}

namespace {

/// The largest number stands for all that are too large for it: detail::bytes_or_most.
std::string amount(std::size_t bytes) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return bytes == most ? fmt::format("{} bytes or more", most) : fmt::format("{} bytes", bytes);
}

}  // namespace

std::uint64_t draw_token() {
  std::random_device draw;
  return std::uint64_t{draw()} << 32 | draw();
}

std::uint64_t SymmetricHeap::check_equal(std::size_t bytes, const char* what) {
  struct Part {
    std::size_t bytes;
    std::uint64_t token;
  };
  const Part mine{bytes, draw_token()};
  const auto all = on_behalf_of(bootstrap_, what, [&] { return bootstrap_.all_gather(mine); });
  const auto differs = std::find_if(all.begin(), all.end(),
                                    [&](const Part& other) { return other.bytes != all[0].bytes; });
  if (differs == all.end()) return all[0].token;
  throw Error(ErrorCode::mismatch,
              fmt::format("{}: rank {} passed {}, rank 0 passed {}", what, differs - all.begin(),
                          amount(differs->bytes), amount(all[0].bytes)));
}

/// Checks that there is room for the memory that all ranks are about to commit, `bytes` each. One
/// rank alone can't tell, because the ranks of a machine or of a control group take from the same
/// memory. All ranks compute with the same numbers, so all throw the same error.
void SymmetricHeap::check_room(std::size_t bytes, const char* what) {
  constexpr std::size_t little = std::size_t{1} << 20;  // not worth an exchange
  if (bytes < little) return;
  struct Limits {
    std::size_t count;
    std::array<MemoryLimit, 12> limit;
  } mine{};
  for (const MemoryLimit& limit : backend_->memory_limits())
    if (mine.count < mine.limit.size()) mine.limit[mine.count++] = limit;
  const auto all = on_behalf_of(bootstrap_, what, [&] { return bootstrap_.all_gather(mine); });
  struct Use {
    std::size_t ranks = 0, left = std::numeric_limits<std::size_t>::max();
  };
  std::map<std::uint64_t, Use> uses;
  for (const Limits& limits : all)
    for (std::size_t i = 0; i < limits.count; ++i) {
      Use& use = uses[limits.limit[i].id];
      ++use.ranks;
      use.left = std::min(use.left, limits.limit[i].left);
    }
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (std::size_t i = 0; i < all[rank].count; ++i) {
      const MemoryLimit& limit = all[rank].limit[i];
      const Use& use = uses[limit.id];
      if (bytes > use.left / use.ranks)
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: rank {}: {} for each of {} ranks, and {} has {} bytes left",
                                what, rank, amount(bytes), use.ranks, limit.name.data(), use.left));
    }
}

std::shared_ptr<SymmetricRange> SymmetricHeap::allocate_range(std::size_t bytes, const char* what,
                                                              Commit commit) {
  const StandardFdsTaken taken;
  const BootstrapHooks::Purpose purpose(bootstrap_, what);
  const std::uint64_t token = check_equal(bytes, what);
  // Sizes are rounded up, and one copy per rank is mapped, so larger ones could overflow. All ranks
  // come here with the same number, so all throw.
  if (bytes > std::numeric_limits<std::size_t>::max() / 4)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: all ranks passed {}, which overflow", what, amount(bytes)));
  if (commit == Commit::at_once) check_room(bytes, what);
  std::shared_ptr<SymmetricRange> range;
  const auto allocate = [&] { range = allocate_here(bytes, token, what, commit); };
  if (nodes_ == nullptr) allocate();
  else agree(bootstrap_, what, allocate);
  return range;
}

namespace {

/// Memory of the ranks from `first` on, of which those of this node have copies.
class RangeOfNode final : public SymmetricRange {
 public:
  RangeOfNode(std::shared_ptr<SymmetricRange> range, int first)
      : range_(std::move(range)), first_(first) {}
  std::byte* address(int rank) const noexcept override { return range_->address(rank - first_); }
  WindowView view(int rank) const noexcept override {
    WindowView view = range_->view(rank - first_);
    view.rank = rank;
    if (view.distances != nullptr) view.distances -= first_;
    return view;
  }
  bool commits_on_touch() const noexcept override { return range_->commits_on_touch(); }
  std::size_t committed(int rank) const override { return range_->committed(rank - first_); }

 private:
  std::shared_ptr<SymmetricRange> range_;
  int first_;
};

}  // namespace

std::shared_ptr<SymmetricRange> SymmetricHeap::allocate_here(std::size_t bytes, std::uint64_t token,
                                                             const char* what, Commit commit) {
  // Where threads of one process pretend to be on several nodes, each node has its own range.
  if (nodes_ != nullptr) token += static_cast<unsigned>(nodes_->here());
  Bootstrap& here = nodes_ == nullptr ? bootstrap_ : nodes_->group_here();
  const auto agree_on = [&](const auto& step) {
    if (nodes_ == nullptr) agree(here, what, step);
    else agree_here(*nodes_, what, step);
  };
  std::vector<int> ranks(static_cast<std::size_t>(here.size()));
  if (nodes_ != nullptr) ranks = nodes_->ranks_here();
  else std::iota(ranks.begin(), ranks.end(), 0);
  const int first = ranks.front();
  std::shared_ptr<ReservedRange> range;
  UniqueFd mine;
  agree_on([&] {
    range =
        backend_->reserve(ranks.back() + 1 - first, std::max<std::size_t>(bytes, 1), token, commit);
    mine = range->create_local(bootstrap_.rank() - first);
  });
  auto descriptors = on_behalf_of(here, what, [&] { return exchange_descriptors(here, mine); });
  agree_on([&] {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == bootstrap_.rank()) continue;
      try {
        range->import_peer(ranks[i] - first, std::move(descriptors[i]));
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("memory of rank {}: {}", ranks[i], error.what()));
      }
    }
  });
  if (nodes_ == nullptr) return range;
  return std::make_shared<RangeOfNode>(std::move(range), first);
}

std::shared_ptr<Window> SymmetricHeap::allocate(std::size_t bytes, const char* what,
                                                Commit commit) {
  auto range = allocate_range(bytes, what, commit);
  auto window = std::make_shared<Window>(backend_, std::move(range), bootstrap_.rank(), bytes,
                                         ++allocations_);
  enter(window);
  return window;
}

void SymmetricHeap::enter(const std::shared_ptr<Window>& window) {
  std::erase_if(windows_, [](const auto& entry) { return entry.second.window.expired(); });
  windows_[window->local()] = {window, window->bytes()};
  if (table_ != nullptr) window->enter(table_);
  const auto& [last, entry] = *windows_.rbegin();
  lowest_ = reinterpret_cast<std::uintptr_t>(windows_.begin()->first);
  highest_ = reinterpret_cast<std::uintptr_t>(last) + entry.bytes;
}

bool SymmetricHeap::owns(const Window& window) const {
  const auto entry = windows_.find(window.local());
  return entry != windows_.end() && entry->second.window.lock().get() == &window;
}

std::shared_ptr<Window> SymmetricHeap::at(const void* pointer) const {
  const auto* address = static_cast<const std::byte*>(pointer);
  auto next = windows_.upper_bound(address);
  if (next == windows_.begin()) return nullptr;
  const auto& [begin, entry] = *std::prev(next);
  if (static_cast<std::size_t>(address - begin) > entry.bytes) return nullptr;
  auto window = entry.window.lock();
  return window && window->serves_collectives() ? window : nullptr;
}

std::shared_ptr<Window> SymmetricHeap::numbered(std::size_t number) const {
  for (const auto& [begin, entry] : windows_)
    if (auto window = entry.window.lock(); window && window->number() == number) return window;
  return nullptr;
}

std::shared_ptr<Window> SymmetricHeap::find(const void* pointer, std::size_t bytes) const {
  auto window = at(pointer);
  if (!window) return nullptr;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - window->local());
  return bytes <= window->bytes() - offset ? window : nullptr;
}

}  // namespace plait
