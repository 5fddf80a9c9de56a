// Ranks that are threads of one process. A message goes straight into its receiver's inbox.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/link_bootstrap.hpp"
#include "bootstrap/support.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

class ThreadLink final : public detail::Link {
 public:
  using Links = std::vector<std::weak_ptr<ThreadLink>>;

  /// `all`: those of all ranks, once they are made.
  ThreadLink(std::shared_ptr<const Links> all, int rank) : all_(std::move(all)), rank_(rank) {}

  std::uint64_t send(int to, const detail::MessageHead& head,
                     std::span<const std::byte> data) override {
    // No rank misses a message to one that has left all groups.
    if (const auto receiver = (*all_)[static_cast<std::size_t>(to)].lock()) {
      const std::scoped_lock lock(receiver->mutex_);
      receiver->route(rank_, packed(head, data));
    }
    return 0;
  }
  bool is_sent(std::uint64_t) override { return true; }
  void advance() override {}
  int process(int) const override { return 0; }  // it is this one, which lives

 private:
  std::shared_ptr<const Links> all_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int ranks) {
  if (ranks < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make_thread_bootstraps: {} ranks, but at least 1 is needed", ranks));
  }
  std::string failure;  // a communicator's settings report it to all ranks
  const std::chrono::nanoseconds timeout = detail::limit_of_meeting({}, failure);
  const auto all = std::make_shared<ThreadLink::Links>();
  std::vector<std::shared_ptr<ThreadLink>> links;
  for (int rank = 0; rank < ranks; ++rank)
    all->push_back(links.emplace_back(std::make_shared<ThreadLink>(all, rank)));
  std::vector<int> numbers(links.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<int> nodes(links.size());  // all on one
  const std::uint64_t context = detail::draw_number();
  std::vector<std::unique_ptr<Bootstrap>> result;
  for (int rank = 0; rank < ranks; ++rank)
    result.push_back(std::make_unique<detail::LinkBootstrap>(
        links[static_cast<std::size_t>(rank)], context, numbers, nodes, rank, timeout));
  return result;
}

}  // namespace plait
