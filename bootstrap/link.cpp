#include "bootstrap/link.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace plait::detail {

std::vector<std::byte> Link::pack_failure(ErrorCode code, std::string_view why) {
  constexpr std::size_t longest = 1000;
  const std::size_t length = std::min(why.size(), longest);
  std::vector<std::byte> data(sizeof code + length);
  std::memcpy(data.data(), &code, sizeof code);
  std::memcpy(data.data() + sizeof code, why.data(), length);
  return data;
}

std::vector<std::byte> Link::packed(const MessageHead& head, std::span<const std::byte> data) {
  std::vector<std::byte> bytes(sizeof head + data.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!data.empty()) std::memcpy(bytes.data() + sizeof head, data.data(), data.size());
  return bytes;
}

void Link::route(int from, std::span<const std::byte> bytes) {
  Message message;
  if (bytes.size() < sizeof message.head) return;
  std::memcpy(&message.head, bytes.data(), sizeof message.head);
  const std::uint64_t context = message.head.context;
  if (const auto closed = closed_.find(context); closed != closed_.end()) {
    if (message.head.type == MessageHead::Type::left && --closed->second == 0)
      closed_.erase(closed);
    return;
  }
  message.data.assign(bytes.begin() + sizeof message.head, bytes.end());
  inboxes_[context][from].push_back(std::move(message));
}

std::optional<MessageHead> Link::next(std::uint64_t context, int from) {
  const std::scoped_lock lock(mutex_);
  const std::deque<Message>& messages = inboxes_[context][from];
  return messages.empty() ? std::nullopt : std::optional(messages.front().head);
}

Message Link::take(std::uint64_t context, int from) {
  const std::scoped_lock lock(mutex_);
  std::deque<Message>& messages = inboxes_[context][from];
  Message message = std::move(messages.front());
  messages.pop_front();
  return message;
}

std::optional<Error> Link::find_failure(std::uint64_t context, int from, std::uint64_t sequence) {
  const std::scoped_lock lock(mutex_);
  for (const Message& message : inboxes_[context][from]) {
    const std::vector<std::byte>& data = message.data;
    ErrorCode code{};
    if (message.head.type != MessageHead::Type::failed || message.head.sequence > sequence ||
        data.size() < sizeof code)
      continue;
    std::memcpy(&code, data.data(), sizeof code);
    return Error(code, std::string(reinterpret_cast<const char*>(data.data()) + sizeof code,
                                   data.size() - sizeof code));
  }
  return std::nullopt;
}

void Link::close(std::uint64_t context, const std::vector<int>& ranks) {
  const std::scoped_lock lock(mutex_);
  Inbox& inbox = inboxes_[context];
  const auto stay = static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](int rank) {
    return inbox[rank].empty() || inbox[rank].back().head.type != MessageHead::Type::left;
  }));
  inboxes_.erase(context);
  if (stay != 0) closed_[context] = stay;
}

}  // namespace plait::detail
