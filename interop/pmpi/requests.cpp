#include "interop/pmpi/requests.hpp"

#include <exception>

namespace plait::pmpi {

void Request::begin() {
  static const CallOptions at_once{};
  if (served_ == nullptr)
    throw Error(ErrorCode::invalid_argument, "MPI_Start: the communicator was freed");
  Served& on = *served_;
  if (!on.stream) on.stream.emplace(on.later->create_stream());
  if (!reached_) reached_.emplace(on.take_event());
  operation_->begin(*on.later, How{*on.stream, at_once});
  reached_->record(*on.stream);
  on.last_begun.store(this, std::memory_order_relaxed);
  under_way_ = true;
}

void Request::begin_or_remove(MPI_Request& handle) try { begin(); } catch (const std::exception&) {
  Requests::instance().remove(handle);
  throw;
}

bool Request::is_done() {
  const std::lock_guard lock(mutex_);
  return served_ == nullptr || reached_->test();
}

/// The last call's task runs on this thread, unless another one may be in a call of this
/// communicator.
void Request::wait() {
  static const bool is_alone = [] {
    int level = MPI_THREAD_MULTIPLE;
    PMPI_Query_thread(&level);
    return level != MPI_THREAD_MULTIPLE;
  }();
  const bool is_last = served_->last_begun.load(std::memory_order_relaxed) == this;
  if (is_alone && is_last) return served_->later->synchronize(*served_->stream);
  reached_->synchronize();
  if (const auto error = served_->later->async_error()) throw Error(*error);
}

int Request::end() noexcept {
  const std::lock_guard lock(mutex_);
  if (!under_way_) return MPI_SUCCESS;
  under_way_ = false;
  if (served_ == nullptr) return std::exchange(result_, MPI_SUCCESS);
  try {
    const Below below;
    const MpiProceeds proceeds;
    wait();
    if (!is_persistent()) served_->give_event(*std::exchange(reached_, std::nullopt));
    operation_->end();
    return MPI_SUCCESS;
  } catch (const std::exception& error) {
    return raise(served_->mpi, error);
  }
}

void Request::settle() noexcept {
  const bool was_under_way = under_way_;
  const int result = end();
  const std::lock_guard lock(mutex_);
  served_ = nullptr;
  under_way_ = was_under_way;
  result_ = result;
}

Requests& Requests::instance() {
  static auto* const requests = new Requests;  // lives as long as the process
  return *requests;
}

MPI_Request Requests::add(std::unique_ptr<Request> request) {
  const std::lock_guard lock(mutex_);
  MPI_Request handle = MPI_REQUEST_NULL;
  if (spare_.empty()) {
    if (PMPI_Recv_init(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &handle) !=
        MPI_SUCCESS)
      throw Error(ErrorCode::backend, "MPI gives no request");
  } else {
    handle = spare_.back();
    spare_.pop_back();
  }
  all_.emplace(handle, std::move(request));
  held_.store(all_.size(), std::memory_order_relaxed);
  return handle;
}

Request* Requests::find(MPI_Request handle) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(handle);
  return found == all_.end() ? nullptr : found->second.get();
}

void Requests::remove(MPI_Request& handle) {
  const std::lock_guard lock(mutex_);
  all_.erase(handle);
  held_.store(all_.size(), std::memory_order_relaxed);
  spare_.push_back(std::exchange(handle, MPI_REQUEST_NULL));
}

void Requests::settle(const Served& served) noexcept {
  std::vector<Request*> its;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, request] : all_)
      if (request->served() == &served) its.push_back(request.get());
  }
  for (Request* const request : its) request->settle();
}

void Requests::free_spare() noexcept {
  const std::lock_guard lock(mutex_);
  for (MPI_Request& handle : spare_) PMPI_Request_free(&handle);
  spare_.clear();
}

}  // namespace plait::pmpi
