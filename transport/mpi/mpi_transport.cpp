#include "transport/mpi/mpi_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "bootstrap/mpi/process.hpp"
#include "plait/error.hpp"
#include "transport/mpi/mpi_extensions.hpp"
#include "transport/mpi/mpi_flows.hpp"
#include "transport/mpi/mpi_post.hpp"

namespace plait::transport {
namespace {

/// What an address holds. The listener's number is random, so a rank of another communicator knows
/// no such listener and refuses the call.
struct Place {
  std::uint64_t magic;
  std::uint64_t listener;
  std::int32_t rank, size;
};
constexpr std::uint64_t place_magic = 0x6d70692d706c6163;

std::uint64_t draw_listener() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

class MpiListener final : public Listener {
 public:
  explicit MpiListener(MpiPost& post) : post_(post) {
    post_.use("listen", [&] { post_.open_door(number_); });
  }
  ~MpiListener() override {
    post_.use_last([&] { post_.close_door(number_); });
  }
  MpiListener(const MpiListener&) = delete;
  MpiListener& operator=(const MpiListener&) = delete;

  Address address() const override {
    const Place place{place_magic, number_, post_.rank(), post_.size()};
    Address address;
    std::memcpy(address.bytes.data(), &place, sizeof place);
    return address;
  }
  std::unique_ptr<ReceiveFlow> accept() override {
    return post_.use("accept", [&]() -> std::unique_ptr<ReceiveFlow> {
      post_.advance();
      auto end = post_.take(number_);
      if (end == nullptr) return nullptr;
      return std::make_unique<MpiReceiveFlow>(post_, std::move(end));
    });
  }

 private:
  MpiPost& post_;
  std::uint64_t number_ = draw_listener();
};

/// "Open MPI v4.1.4".
std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version", 0);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm comm) : post_(MpiPost::of(comm)) {
    properties_.name = fmt::format("MPI ({})", library_name());
    properties_.device_memory = mpi_takes(MemoryKind::cuda) || mpi_takes(MemoryKind::hip);
    properties_.largest_message = largest_mpi_message;
  }
  ~MpiTransport() override {
    post_.use_last([&] {
      for (const auto& [place, end] : calls_) post_.leave(*end, 0);
      post_.part_with_notes();
    });
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  const Properties& properties() const override { return properties_; }
  std::unique_ptr<Listener> listen() override { return std::make_unique<MpiListener>(post_); }
  std::unique_ptr<SendFlow> connect(const Address& address, Ways) override {
    Place place{};
    std::memcpy(&place, address.bytes.data(), sizeof place);
    if (place.magic != place_magic || place.size != post_.size() || place.rank < 0 ||
        place.rank >= post_.size())
      throw Error(ErrorCode::invalid_argument,
                  "connect: this is not an address of this MPI communicator");
    return post_.use("connect", [&]() -> std::unique_ptr<SendFlow> {
      auto& end = calls_[{place.rank, place.listener}];
      if (end == nullptr) end = post_.call(place.rank, place.listener);
      post_.advance();
      if (end->state == SendEnd::State::called) return nullptr;
      const auto answered = calls_.extract({place.rank, place.listener}).mapped();
      if (answered->state == SendEnd::State::open)
        return std::make_unique<MpiSendFlow>(post_, answered);
      post_.leave(*answered, 0);
      throw Error(ErrorCode::rank_lost,
                  fmt::format("connect: rank {} listens no more at this address", place.rank));
    });
  }
  /// The listener may have accepted, and hears that no message comes.
  void give_up(const Address& address, Ways) override {
    Place place{};
    std::memcpy(&place, address.bytes.data(), sizeof place);
    post_.use_last([&] {
      if (const auto call = calls_.extract({place.rank, place.listener}))
        post_.leave(*call.mapped(), 0);
    });
  }
  /// MPI can't wake a thread that sleeps, so this sleeps for a short time only.
  void wait(std::chrono::microseconds timeout) override {
    auto limit = timeout;  // if MPI has ended or fails
    post_.use_last([&] {
      post_.advance();
      limit = std::min(timeout, longest_blind_wait);
    });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return woken_; });
    woken_ = false;
  }
  void wake() noexcept override {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }
  void set_end(std::function<void()> end) override {
    before_mpi_ends_.reset();
    if (end) before_mpi_ends_.emplace(std::move(end));
  }

 private:
  MpiPost& post_;
  Properties properties_;
  std::map<std::pair<int, std::uint64_t>, std::shared_ptr<SendEnd>> calls_;  // rank and listener
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::optional<plait::detail::BeforeMpiEnds> before_mpi_ends_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm) {
  int level = MPI_THREAD_SINGLE;
  if (plait::detail::is_finalized())
    throw Error(ErrorCode::bootstrap, "the transport over MPI: MPI is already finalised");
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread", 0);
  if (level != MPI_THREAD_MULTIPLE)
    throw Error(ErrorCode::unsupported,
                "the transport over MPI: MPI must be initialised by MPI_Init_thread with "
                "MPI_THREAD_MULTIPLE, because Plait's proxy thread calls it beside the program's "
                "threads");
  return std::make_unique<MpiTransport>(comm);
}

}  // namespace plait::transport
