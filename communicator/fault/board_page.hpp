// One rank's page of the board.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "communicator/fault/board.hpp"

namespace plait {

/// Only its rank writes it, but for the verdict. Behind it lie two logs of messages per peer, those
/// sent and those received, and behind these the rank's desk. Behind the copy of a page of another
/// node lie the two logs of messages with this rank.
struct Board::Page {
  std::atomic<std::uint64_t> process_space;  // where the number of its process is valid
  CallLog<1024> calls;
  std::atomic<bool> has_messages;  // with any rank

  std::atomic<Board::State> state;
  std::atomic<ErrorCode> code;
  std::atomic<char> reason[501];
  std::atomic<char> elsewhere[301];
  std::atomic<bool> has_record;
  static constexpr std::size_t record_words = sizeof(DiagnosticRecord) / sizeof(std::uint32_t);
  std::atomic<std::uint32_t> record[record_words];
  std::atomic<std::uint64_t> verdict;  // in the page of the node's first rank; 0: none

  /// Why this rank has refused calls: the first ones since all ranks have passed a refusal.
  struct Refusal {
    std::atomic<std::uint64_t> number;  // from 1 on
    std::atomic<std::uint64_t> call;    // of the collective; 0: there was none
    std::atomic<char> why[301];
  } refusals[16];
  std::atomic<std::uint64_t> refused;  // how many calls
  /// In the page of the node's first rank: refusals of the node's ranks, and of others as far as a
  /// rank of this node has heard of them.
  std::atomic<std::uint64_t> refused_by_all;
};

/// A text in a page is an array of atomic characters, ended by a zero.
template <std::size_t Size>
void write_text(std::atomic<char> (&to)[Size], std::string_view text) {
  const std::size_t length = text.size() < Size - 1 ? text.size() : Size - 1;
  for (std::size_t i = 0; i <= length; ++i)
    to[i].store(i < length ? text[i] : '\0', std::memory_order_relaxed);
}
template <std::size_t Size>
std::string read_text(const std::atomic<char> (&from)[Size]) {
  std::string text;
  for (const auto& c : from) {
    const char character = c.load(std::memory_order_relaxed);
    if (character == '\0') break;
    text += character;
  }
  return text;
}

}  // namespace plait
