// Windows of the program's own memory. Every rank describes its memory, sees all descriptions, and
// then all decide alike.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "bootstrap/bootstrap_hooks.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"
#include "symm_mem/descriptor_exchange.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

constexpr const char* attaching = "attach";
constexpr const char* detaching = "detach";

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

/// Whether this rank can map the memory of every other of its node.
bool can_map_all(const Backend& backend, const std::vector<MemoryOffer>& offers) {
  return std::all_of(offers.begin(), offers.end(), [&](const MemoryOffer& offer) {
    return offer.process == 0 || offer.process == process_number() || backend.can_map(offer);
  });
}

}  // namespace

/// The pack of a GPU's kernels has 16 bytes, and all ranks' memory must be aligned alike.
void SymmetricHeap::check_new(const void* pointer, std::size_t bytes) {
  constexpr std::uintptr_t alignment = 16;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr) refuse("the pointer is null");
  if (bytes == 0) refuse("{} with 0 bytes", pointer);
  if (begin % alignment != 0) refuse("{} is not aligned to {} bytes", pointer, alignment);
  if (bytes > UINTPTR_MAX - begin) refuse("{} with {} bytes overflows", pointer, bytes);
  std::erase_if(windows_, [&](const auto& entry) {
    const auto window = entry.second.window.lock();
    if (!window || window->is_stale()) return true;
    const auto other = reinterpret_cast<std::uintptr_t>(entry.first);
    if (begin < other + window->bytes() && other < begin + bytes)
      refuse("{} with {} bytes overlaps the symmetric memory at {} with {}", pointer, bytes,
             static_cast<const void*>(entry.first), window->bytes());
    return false;
  });
}

std::shared_ptr<SymmetricRange> SymmetricHeap::map(const std::vector<MemoryOffer>& offers,
                                                   const UniqueFd& mine) {
  std::vector<UniqueFd> descriptors(offers.size());
  if (std::any_of(offers.begin(), offers.end(),
                  [](const MemoryOffer& offer) { return offer.has_descriptor(); })) {
    // All ranks take part in an exchange.
    const UniqueFd nothing = mine.valid()
                                 ? UniqueFd()
                                 : new_fd([] { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); });
    std::vector<UniqueFd> found;
    const auto exchange = [&](Bootstrap& here) {
      found = on_behalf_of(here, attaching, [&] {
        return exchange_descriptors(here, mine.valid() ? mine : nothing);
      });
    };
    if (nodes_ == nullptr) exchange(bootstrap_);
    else agree(bootstrap_, attaching, [&] { exchange(nodes_->group_here()); });
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < offers.size(); ++rank)
      if (offers[rank].process != 0) descriptors[rank] = std::move(found[next++]);
  }
  std::shared_ptr<SymmetricRange> range;
  agree(bootstrap_, attaching,
        [&] { range = backend_->attach(bootstrap_.rank(), offers, descriptors); });
  return range;
}

std::shared_ptr<Window> SymmetricHeap::attach(void* pointer, std::size_t bytes, WindowUse use) {
  const StandardFdsTaken taken;
  const BootstrapHooks::Purpose purpose(bootstrap_, attaching);
  UniqueFd descriptor;
  std::uint64_t memory = 0;
  auto offers = gather_agreed(bootstrap_, attaching, [&] {
    check_new(pointer, bytes);
    const MemoryOffer offer = backend_->offer(pointer, bytes, descriptor);
    memory = backend_->memory_number(pointer, bytes);
    return offer;
  });
  for (int rank = 0; nodes_ != nullptr && rank < bootstrap_.size(); ++rank)
    if (!nodes_->is_here(rank)) offers[static_cast<std::size_t>(rank)].process = 0;
  // All ranks make equal choices.
  struct Reach {
    bool maps, reads;
    WindowUse use;
  } reach{can_map_all(*backend_, offers), backend_->info().facts.peer_reads, use};
  const auto all =
      on_behalf_of(bootstrap_, attaching, [&] { return bootstrap_.all_gather(reach); });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].use != all[0].use)
      throw Error(ErrorCode::mismatch,
                  fmt::format("{}: ranks 0 and {} passed different uses", attaching, rank));
    reach.maps = reach.maps && all[rank].maps;
    reach.reads = reach.reads && all[rank].reads;
  }
  if (!reach.maps && !reach.reads)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: this memory belongs to single processes, and the system does not "
                            "let them read each other's (docs/symmetric-memory.md)",
                            attaching));
  std::shared_ptr<SymmetricRange> range;
  if (reach.maps) range = map(offers, descriptor);
  auto window =
      std::make_shared<Window>(backend_, std::move(range), bootstrap_.rank(), pointer, bytes,
                               ++allocations_, Attachment{use, memory, kept_, std::move(offers)});
  enter(window);
  return window;
}

void SymmetricHeap::detach(const std::shared_ptr<Window>& window) {
  const BootstrapHooks::Purpose purpose(bootstrap_, detaching);
  agree(bootstrap_, detaching, [&] {
    if (window == nullptr) refuse("the window is null");
    if (!window->is_attached() || !owns(*window))
      refuse(
          "the window of {} is not attached here: it was allocated, or detached before, or "
          "belongs to another communicator",
          static_cast<const void*>(window->local()));
    // Now no rank's calls need another's memory any more: nor those that read it by system calls or
    // from another node.
    backend_->synchronize_device();
  });
  const auto numbers =
      on_behalf_of(bootstrap_, detaching, [&] { return bootstrap_.all_gather(window->number()); });
  for (std::size_t rank = 1; rank < numbers.size(); ++rank)
    if (numbers[rank] != numbers[0])
      throw Error(ErrorCode::mismatch, fmt::format("{}: rank {} passed window {}, rank 0 passed {}",
                                                   detaching, rank, numbers[rank], numbers[0]));
  windows_.erase(window->local());
  ++allocations_;
  window->unmap();
  // The caller may free the memory now, because no peer has it mapped.
  agree(bootstrap_, detaching, [] {});
}

}  // namespace plait
