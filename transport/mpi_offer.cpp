#include "transport/mpi_offer.hpp"

#include <atomic>

namespace plait::transport {
namespace {

std::atomic<MakeMpiTransport> offered = nullptr;

}  // namespace

void offer_mpi_transport(MakeMpiTransport make) { offered = make; }
MakeMpiTransport offered_mpi_transport() { return offered; }

}  // namespace plait::transport
