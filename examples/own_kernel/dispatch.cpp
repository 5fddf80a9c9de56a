// Tokens visit experts and come back, as in a mixture of experts: each rank has tokens and is an
// expert. The device alone knows which token goes where. One kernel does it without any count on
// the host; separate calls need the counts there. `dispatch [tokens per rank [floats per token]]`
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <plait/kernel.hpp>
#include <plait/plait.hpp>
#include <random>
#include <utility>
#include <vector>

constexpr plait::LaunchShape shape{64, 512};
constexpr unsigned pack = 16 / sizeof(float);  // a thread moves 16 bytes at once

PLAIT_DEVICE float factor_of(int expert) { return expert + 2; }
PLAIT_DEVICE unsigned part_of(int rank, unsigned block) { return rank * shape.blocks + block; }

/// The tokens of a rank.
struct Tokens {
  const float* rows;   // one per token, of `hidden` floats
  const int* experts;  // the rank to which each token goes
  unsigned* places;    // of each token among those of its block for its expert: see `number`
  unsigned count;
  std::size_t hidden;

  /// Block b has the tokens from first(b) to first(b + 1) - 1.
  PLAIT_DEVICE unsigned first(unsigned block) const {
    return std::size_t{count} * block / shape.blocks;
  }
  /// Sets the places of the block's tokens, in their order. Calls store(expert, number of tokens).
  template <class Here, class Store>
  PLAIT_DEVICE void number(const Here& here, const Store& store) const {
    for (int expert = here.thread(); expert < here.ranks(); expert += here.threads()) {
      unsigned found = 0;
      for (unsigned token = first(here.block()); token < first(here.block() + 1); ++token)
        if (experts[token] == expert) places[token] = found++;
      store(expert, found);
    }
  }
  /// The block's threads call move(row, at) for all packs of rows first to end - 1. A pack begins
  /// at float `at` of its row.
  template <class Here, class Move>
  PLAIT_DEVICE void each_pack(Here& here, unsigned first, unsigned end, const Move& move) const {
    const unsigned packs = hidden / pack;
    for (unsigned i = here.thread(); i < (end - first) * packs; i += here.threads())
      move(first + i / packs, i % packs * pack);
  }
};

/// An inbox has a part for each (source, block): a row for each token of that block, in case one
/// expert gets them all. Block b of every rank does:
/// 1. It numbers its tokens for each expert. It stores their rows, their numbers at the source and
///    their count in its parts of the experts' inboxes.
/// 2. Barrier: the blocks b of all ranks have filled their parts of this inbox.
/// 3. It applies the expert to the rows in these parts, and stores the results at their sources.
/// 4. Barrier: the results of its tokens are there, and its parts of all inboxes have been read.
///
/// No barrier comes first, because a block overwrites nothing that is still read:
/// - A part of an inbox has one writer, block b of the source, and one reader, block b of the
///   owner. The reader has finished before barrier 4 of the last launch; the writer starts after.
/// - Results are stored after barrier 2. Their source's block b has come there, so the earlier work
///   on its stream has ended, which includes reading the last results.
/// This holds if all launches have the same tokens per rank and the same blocks. Otherwise parts
/// change hands, and the kernel has to begin with a barrier.
struct Visit {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, Tokens tokens, plait::PeerView<unsigned> counts,
                               plait::PeerView<unsigned> origins, plait::PeerView<float> inbox,
                               plait::PeerView<float> results) const {
    const unsigned first = tokens.first(here.block()), end = tokens.first(here.block() + 1);
    const auto part = [&](int source) { return std::size_t{tokens.count} * source + first; };
    tokens.number(here, [&](int expert, unsigned count) {
      counts[expert][part_of(here.rank(), here.block())] = count;
    });
    here.sync();  // the places are there
    tokens.each_pack(here, first, end, [&](unsigned token, unsigned at) {
      const int expert = tokens.experts[token];
      const std::size_t row = part(here.rank()) + tokens.places[token];
      const auto values = here.load16(tokens.rows + token * tokens.hidden + at);
      here.store16(inbox[expert] + row * tokens.hidden + at, values);
      if (at == 0) origins[expert][row] = token;
    });
    if (!here.barrier()) return;
    for (int k = 0; k < here.ranks(); ++k) {
      const int source = (here.rank() + k) % here.ranks();  // so ranks begin at different links
      const unsigned count = counts.own()[part_of(source, here.block())];
      tokens.each_pack(here, 0, count, [&](unsigned place, unsigned at) {
        const std::size_t row = part(source) + place, token = origins.own()[row];
        auto values = here.load16(inbox.own() + row * tokens.hidden + at);
        for (float& value : values.lane) value *= factor_of(here.rank());
        here.store16(results[source] + token * tokens.hidden + at, values);
      });
    }
    here.barrier();
  }
};

// The kernels around separate calls. Each stays within its rank.
struct Count {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, Tokens tokens, unsigned* counts) const {
    tokens.number(
        here, [&](int expert, unsigned count) { counts[part_of(expert, here.block())] = count; });
  }
};
struct Sort {  // tokens by (expert, block), or back
  bool back;
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, Tokens tokens, const unsigned* starts, const float* from,
                               float* to) const {
    const unsigned first = tokens.first(here.block()), end = tokens.first(here.block() + 1);
    tokens.each_pack(here, first, end, [&](unsigned token, unsigned at) {
      const unsigned start = starts[part_of(tokens.experts[token], here.block())];
      const unsigned sorted = start + tokens.places[token];
      const auto values = here.load16(from + (back ? sorted : token) * tokens.hidden + at);
      here.store16(to + (back ? token : sorted) * tokens.hidden + at, values);
    });
  }
};
struct Scale {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, float* values, std::size_t count) const {
    for (std::size_t i = here.index(); i < count; i += here.stride())
      values[i] *= factor_of(here.rank());
  }
};

struct SeparateCalls {
  plait::Communicator& comm;
  Tokens tokens;
  std::size_t ranks = comm.size();
  plait::Buffer<unsigned> counts = comm.allocate<unsigned>(ranks * shape.blocks);
  plait::Buffer<unsigned> peers_counts = comm.allocate<unsigned>(counts.size());
  plait::Buffer<float> sorted = comm.allocate<float>(tokens.count * tokens.hidden);
  plait::Buffer<float> inbox = comm.allocate<float>(ranks * sorted.size());

  using Sizes = std::vector<std::size_t>;
  /// Turns the number of rows of each (rank, block), and a 0, into the rows where they start.
  /// Returns how many floats there are for each rank, and where they start.
  std::pair<Sizes, Sizes> add_up(std::vector<unsigned>& rows) const {
    std::exclusive_scan(rows.begin(), rows.end(), rows.begin(), 0U);
    Sizes count, start;
    for (std::size_t i = 0; i + 1 < rows.size(); i += shape.blocks) {
      count.push_back((rows[i + shape.blocks] - rows[i]) * tokens.hidden);
      start.push_back(rows[i] * tokens.hidden);
    }
    return {count, start};
  }
  void visit(float* results) const {
    const std::size_t bytes = counts.span().size_bytes();
    std::vector<unsigned> starts(counts.size() + 1), peers_starts(counts.size() + 1);
    plait::launch(comm, {}, shape, Count{}, tokens, counts.data());
    comm.all_to_all(counts.span(), peers_counts.span());
    comm.copy(starts.data(), counts.data(), bytes);
    comm.copy(peers_starts.data(), peers_counts.data(), bytes);
    comm.synchronize();  // the device is idle until the next call
    const auto [send, send_at] = add_up(starts);
    const auto [recv, recv_at] = add_up(peers_starts);
    comm.copy(counts.data(), starts.data(), bytes);
    plait::launch(comm, {}, shape, Sort{false}, tokens, counts.data(), tokens.rows, sorted.data());
    comm.all_to_all_v(sorted.span(), {send, send_at}, inbox.span(), {recv, recv_at});
    const std::size_t received = peers_starts.back() * tokens.hidden;
    plait::launch(comm, {}, shape, Scale{}, inbox.data(), received);
    comm.all_to_all_v(inbox.span(), {recv, recv_at}, sorted.span(), {send, send_at});
    plait::launch(comm, {}, shape, Sort{true}, tokens, counts.data(), sorted.data(), results);
    comm.synchronize();  // `starts` has been copied
  }
};

int main(int argc, char** argv) {
  const unsigned count = argc > 1 ? std::atoi(argv[1]) : 500;
  const unsigned hidden = argc > 2 ? std::atoi(argv[2]) / pack * pack : 256;
  plait::Communicator comm = plait::make_world_communicator();
  const unsigned ranks = comm.size();
  std::mt19937 random(comm.rank());
  std::vector<float> values, expected;
  std::vector<int> experts;
  for (unsigned token = 0; token < count; ++token) {
    experts.push_back(std::min(random() % ranks, random() % ranks));  // low ranks get more
    for (unsigned i = 0; i < hidden; ++i) {
      values.push_back(random() % 4096);
      expected.push_back(values.back() * factor_of(experts.back()));
    }
  }
  const std::size_t floats = values.size(), bytes = floats * sizeof(float);
  const auto rows = comm.allocate<float>(floats), results = comm.allocate<float>(floats);
  const auto inbox = comm.allocate<float>(ranks * floats);
  const auto experts_there = comm.allocate<int>(count);
  const auto places = comm.allocate<unsigned>(count);
  const auto origins = comm.allocate<unsigned>(std::size_t{ranks} * count);
  const auto counts = comm.allocate<unsigned>(ranks * shape.blocks);
  const Tokens tokens{rows.data(), experts_there.data(), places.data(), count, hidden};
  comm.copy(experts_there.data(), experts.data(), count * sizeof(int));

  const auto wrong_in = [&](const char* way, const auto& visit) {
    using Clock = std::chrono::steady_clock;
    Clock::duration best = Clock::duration::max();
    std::vector<float> got(floats, -1);
    for (int left = 9; left >= 0; --left) {
      // Only the last repetition has the values: anything that others have left behind is wrong.
      comm.copy(rows.data(), left > 0 ? got.data() : values.data(), bytes);
      comm.barrier();
      comm.synchronize();
      const auto start = Clock::now();
      visit();
      comm.synchronize();
      best = std::min(best, Clock::now() - start);
    }
    comm.copy(got.data(), results.data(), bytes);
    comm.synchronize();
    unsigned wrong = 0;
    for (std::size_t row = 0; row < floats; row += hidden)
      if (!std::equal(&expected[row], &expected[row] + hidden, &got[row])) ++wrong;
    std::printf("rank %d: %u of %u tokens are wrong, %ld us in %s\n", comm.rank(), wrong, count,
                static_cast<long>(best / std::chrono::microseconds(1)), way);
    return wrong;
  };
  unsigned wrong = wrong_in("one kernel", [&] {
    plait::launch(comm, {}, shape, Visit{}, tokens, plait::view_of(comm, counts),
                  plait::view_of(comm, origins), plait::view_of(comm, inbox),
                  plait::view_of(comm, results));
  });
  const SeparateCalls separate{comm, tokens};
  wrong += wrong_in("separate calls", [&] { separate.visit(results.data()); });
  return wrong > 0;
}
