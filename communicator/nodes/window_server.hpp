// The part of the peer in one-sided calls between nodes. It makes no call, so its proxy answers
// requests (algorithms/blocks/channels/window_request.hpp): it copies the bytes of puts into the
// window and those of gets out of it, and counts signals.
//
// Why it is right. A kernel's part in the channels is taken over with a kernel's order: a slot is
// read after an acquire of `published`, and given back, or published, by a release once the copies
// are complete. On the host these are memcpy. On GPUs they go on a stream of this object, which
// waits for nothing, and the proxy polls the event behind them, because a kernel of the program may
// wait for what the proxy does next. A signal is released after the copies of its put and all
// before it, and before the slot is given back.
//
// A copy begins with the window's entry locked (`WindowTable`). A window that ends waits for this
// rank's kernels, so peers may do until then what these wait for. Then it takes its entry out, and
// no copy begins any more; and it waits for the device once more, for copies that have begun.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/window_request.hpp"
#include "bootstrap/nodes.hpp"
#include "symm_mem/own_memory.hpp"
#include "symm_mem/window_table.hpp"
#include "transport/proxy.hpp"

namespace plait {

class WindowServer {
 public:
  /// `notes`: of all channels from this rank. `nodes` outlives this object.
  WindowServer(std::shared_ptr<Backend> backend, std::shared_ptr<WindowTable> table,
               const Nodes& nodes, int rank, const ChannelMemory& memory, ChunkNote* notes);
  /// Waits for its copies.
  ~WindowServer();
  WindowServer(const WindowServer&) = delete;
  WindowServer& operator=(const WindowServer&) = delete;

  /// `refuse`: called once for each rank whose request can't be served; it gets no more answers.
  void start(std::function<void(const Error& why)> refuse) { refuse_ = std::move(refuse); }
  /// From now on serves the rank of this lane, whose memory outlives this object.
  void add(const transport::Lane& lane);
  /// The signals of each rank that it has counted.
  std::uint32_t* signals() const noexcept { return signals_.get(); }
  /// Takes requests that have come, and goes on with the others. Never waits. True if anything
  /// moved or is being copied. One thread at a time.
  bool serve();

 private:
  struct Batch {  // of requests and replies whose copies are awaited together
    std::uint32_t requests = 0, signals = 0, replies = 0;
    bool copies = false;
  };
  struct Client {
    int rank;
    std::byte *requests, *replies;                       // slots
    ChannelSignals *here, *there;                        // [way]
    ChunkNote* notes;                                    // of the replies
    std::unique_ptr<DeviceEvent> copied;                 // null on the host
    std::uint32_t asked = 0, answered = 0, signals = 0;  // counts
    WindowRequest get{};                                 // what is left of it
    Batch batch{};
    bool is_copying = false, is_refused = false;
  };

  bool serve(Client& client);
  void take_requests(Client& client);
  void answer(Client& client);
  void finish(Client& client);
  bool move(Client& client, const WindowRequest& request, std::byte* slot);
  void copy(Client& client, std::byte* to, const std::byte* from, std::size_t bytes);

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<WindowTable> table_;
  const Nodes& nodes_;
  int rank_;
  ChannelMemory memory_;
  ChunkNote* notes_;
  std::uint32_t slot_bytes_;
  PinnedMemory<std::uint32_t> signals_;
  std::function<void(const Error&)> refuse_;
  std::vector<Client> clients_;
  NativeStream stream_ = nullptr;  // null on the host
};

}  // namespace plait
