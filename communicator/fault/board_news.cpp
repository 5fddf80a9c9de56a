// The news that the board sends to ranks of other nodes, which can't read its pages.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "communicator/fault/board.hpp"
#include "communicator/fault/board_page.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

enum class NewsKind : std::uint32_t { page, calls, messages, refusal };

/// A rank's page without its log.
struct PageNews {
  NewsKind kind = NewsKind::page;
  Board::State state{};
  ErrorCode code{};
  bool has_record = false;
  std::array<char, 501> reason{};
  std::array<char, 301> elsewhere{};
  DiagnosticRecord record{};
  std::uint64_t calls = 0;  // the number of the last one
  Signature last{};
  std::uint64_t verdict = 0;  // as in the page; the first one that a node has counts there
};

/// The beginning of news of calls or messages; their signatures follow.
struct CallNews {
  NewsKind kind = NewsKind::calls;
  std::uint32_t count = 0;
  std::uint64_t first = 0;   // the number of the first one
  std::uint64_t before = 0;  // the hash of all calls before it
};

/// News of a call that a rank has refused.
struct RefusalNews {
  NewsKind kind = NewsKind::refusal;
  std::uint64_t number = 0, call = 0;  // as in the page
  std::array<char, 301> why{};
};

/// The most calls in one message. If a rank makes more of them between two, a difference in the
/// others shows in the hash.
constexpr std::uint64_t most_calls = 64;

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Takes a value off the front. False if there are too few bytes.
template <class T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return true;
}

/// The calls in `log` after call `told`. Advances `told`.
template <std::uint64_t Remembered>
std::vector<std::byte> news_of(NewsKind kind, const CallLog<Remembered>& log, std::uint64_t& told) {
  const std::uint64_t last = log.last();
  if (last == told) return {};
  CallNews news;
  news.kind = kind;
  news.first = std::max(told, last - std::min(last, most_calls)) + 1;
  news.count = static_cast<std::uint32_t>(last + 1 - news.first);
  const auto before = log.copy(news.first - 1);
  if (news.first != 1) news.before = before.history;
  bool whole = before.whole;
  std::vector<std::byte> bytes = bytes_of(news);
  for (std::uint64_t call = news.first; call <= last; ++call) {
    const auto copy = log.copy(call);
    whole = whole && copy.whole;
    const auto signature = bytes_of(copy.signature);
    bytes.insert(bytes.end(), signature.begin(), signature.end());
  }
  // Meanwhile, this thread may have been without a core for so long that later calls were written
  // over these. They are told the next time.
  if (!whole) return {};
  told = last;
  return bytes;
}

/// Puts such news into a copy of the log. False if they are none. Sets `refused` if one of the
/// calls is.
template <std::uint64_t Remembered>
bool take_calls(std::span<const std::byte> bytes, CallLog<Remembered>& copy, bool& refused) {
  CallNews news;
  if (!take(bytes, news) || news.first == 0) return false;
  if (news.first != copy.last() + 1) copy.skip_to(news.first, news.before);
  Signature signature;
  for (std::uint32_t i = 0; i < news.count && take(bytes, signature); ++i) {
    copy.publish_any(news.first + i, signature);
    refused = refused || signature.is_refused();
  }
  return true;
}

}  // namespace

std::vector<std::byte> Board::news() {
  const Page& mine = page(rank_);
  const State state = mine.state.load(std::memory_order_acquire);
  const auto record = this->record(rank_);
  const std::uint64_t verdict = page(nodes_.ranks_here().front()).verdict.load();
  const Told now{.state = state,
                 .has_record = record.has_value(),
                 .has_verdict = verdict != 0,
                 .calls = told_.calls};
  if (now == told_) return {};
  told_ = now;
  PageNews news;
  news.state = state;
  news.code = mine.code;
  news.reason = as_text<decltype(news.reason)>(read_text(mine.reason));
  news.elsewhere = as_text<decltype(news.elsewhere)>(read_text(mine.elsewhere));
  news.has_record = record.has_value();
  if (record) news.record = *record;
  news.calls = mine.calls.last();
  if (news.calls != 0) news.last = mine.calls.at(news.calls);
  news.verdict = verdict;
  return bytes_of(news);
}

std::vector<std::byte> Board::call_news() {
  return news_of(NewsKind::calls, page(rank_).calls, told_.calls);
}
std::vector<std::byte> Board::message_news(int peer) {
  const MessageLog& log = messages(rank_, true, peer);
  std::uint64_t& told = told_messages_[static_cast<std::size_t>(peer)];
  auto news = news_of(NewsKind::messages, log, told);
  if (told != log.last()) has_sent_ = true;
  return news;
}

std::vector<std::byte> Board::refusal_news() {
  const Page& mine = page(rank_);
  while (told_refusals_ < mine.refused.load()) {
    const Page::Refusal& kept = mine.refusals[++told_refusals_ % std::size(mine.refusals)];
    if (kept.number.load(std::memory_order_acquire) != told_refusals_) continue;
    RefusalNews news;
    news.number = told_refusals_;
    news.call = kept.call;
    news.why = as_text<decltype(news.why)>(read_text(kept.why));
    return bytes_of(news);
  }
  return {};
}

void Board::hear_refusal(int rank, std::span<const std::byte> bytes) {
  RefusalNews news;
  if (!take(bytes, news)) return;
  news.why.back() = '\0';
  Page& page = heard(rank);
  Page::Refusal& copy = page.refusals[news.number % std::size(page.refusals)];
  write_text(copy.why, news.why.data());
  copy.call.store(news.call, std::memory_order_relaxed);
  copy.number.store(news.number, std::memory_order_release);
  refused_by_all_->fetch_add(1);
}

void Board::hear(int rank, std::span<const std::byte> bytes) {
  Page& copy = heard(rank);
  NewsKind kind{};
  if (bytes.size() < sizeof kind) return;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  if (kind == NewsKind::refusal) return hear_refusal(rank, bytes);
  if (kind != NewsKind::page) {
    bool refused = false;
    if (kind == NewsKind::messages) take_calls(bytes, messages(rank, true, rank_), refused);
    else if (take_calls(bytes, copy.calls, refused))
      compares_[static_cast<std::size_t>(rank)] = true;
    if (refused) refused_by_all_->fetch_add(1);
    return;
  }
  PageNews news;
  if (!take(bytes, news)) return;
  news.reason.back() = news.elsewhere.back() = '\0';
  // Where calls are compared, they come one by one.
  if (!compares_[static_cast<std::size_t>(rank)] && news.calls > copy.calls.last())
    copy.calls.publish_any(news.calls, news.last);
  if (news.has_record) {
    std::uint32_t words[Page::record_words];
    std::memcpy(words, &news.record, sizeof(words));
    for (std::size_t i = 0; i < Page::record_words; ++i)
      copy.record[i].store(words[i], std::memory_order_relaxed);
    copy.has_record.store(true, std::memory_order_release);
  }
  if (std::uint64_t none = 0; news.verdict != 0)
    page(nodes_.ranks_here().front()).verdict.compare_exchange_strong(none, news.verdict);
  copy.code.store(news.code, std::memory_order_relaxed);
  write_text(copy.reason, news.reason.data());
  write_text(copy.elsewhere, news.elsewhere.data());
  copy.state.store(news.state, std::memory_order_release);
}

void Board::lose(int rank) noexcept { lost_[static_cast<std::size_t>(rank)] = true; }

}  // namespace plait
