#include "bench/peers/mpi.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "plait/error.hpp"
#include "plait/mpi.hpp"
#include "plait/unique_id.hpp"

namespace plait::bench {
namespace {

template <class Key, class Value>
std::optional<Value> find(const std::map<Key, Value>& table, Key key) {
  const auto found = table.find(key);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

/// None for the small floats, which MPI 3 lacks.
std::optional<MPI_Datatype> mpi_type(DataType type) {
  static const std::map<DataType, MPI_Datatype> types = {
      {DataType::i8, MPI_INT8_T},
      {DataType::u8, MPI_UINT8_T},
      {DataType::i16, MPI_INT16_T},
      {DataType::u16, MPI_UINT16_T},
      {DataType::i32, MPI_INT32_T},
      {DataType::u32, MPI_UINT32_T},
      {DataType::i64, MPI_INT64_T},
      {DataType::u64, MPI_UINT64_T},
      {DataType::f32, MPI_FLOAT},
      {DataType::f64, MPI_DOUBLE},
      // For MPI_C_BOOL, Open MPI takes no other bytes than 0 and 1 for truth.
      {DataType::boolean, MPI_UINT8_T},
      {DataType::complex_f32, MPI_C_FLOAT_COMPLEX},
      {DataType::complex_f64, MPI_C_DOUBLE_COMPLEX},
      {DataType::f32_i32, MPI_FLOAT_INT},
      {DataType::f64_i32, MPI_DOUBLE_INT},
      {DataType::i32_i32, MPI_2INT},
      {DataType::i64_i32, MPI_LONG_INT}};
  return find(types, type);
}

std::optional<MPI_Op> mpi_op(ReduceOp op) {
  static const std::map<ReduceOp, MPI_Op> ops = {
      {ReduceOp::sum, MPI_SUM},   {ReduceOp::prod, MPI_PROD},     {ReduceOp::min, MPI_MIN},
      {ReduceOp::max, MPI_MAX},   {ReduceOp::band, MPI_BAND},     {ReduceOp::bor, MPI_BOR},
      {ReduceOp::bxor, MPI_BXOR}, {ReduceOp::land, MPI_LAND},     {ReduceOp::lor, MPI_LOR},
      {ReduceOp::lxor, MPI_LXOR}, {ReduceOp::minloc, MPI_MINLOC}, {ReduceOp::maxloc, MPI_MAXLOC}};
  return find(ops, op);
}

/// Whether MPI gives Plait's results.
/// - Overflow is undefined for MPI's integers. The vector code of Open MPI 4.1 saturates sums of 8
///   and 16 bits; other MPIs and Plait wrap.
/// - MPI leaves a single truth value as it is. Plait makes it 1 or 0.
bool agrees(const Task& task) {
  const Call& call = task.call;
  if (call.op == ReduceOp::sum) return size_of(call.type) > 2;
  return !is_logical(call.op) || (task.ranks > 1 && !is_scan(call.collective));
}

class MpiPeer : public Contender {
 public:
  MpiPeer(Communicator& comm, const Arena& arena, bool on_stream, std::string name = "peer:mpi")
      : Contender(std::move(name), Memory::ordinary, arena),
        backend_(backend_of(comm)),
        on_stream_(on_stream) {
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi_);
  }
  ~MpiPeer() override { MPI_Comm_free(&mpi_); }

  void enqueue(const Task& task, NativeStream stream) override {
    const Call& call = task.call;
    const bool reduces = facts_of(call.collective).reduces;
    const auto type = reduces ? mpi_type(call.type) : MPI_BYTE;
    const auto op = mpi_op(call.op);
    const std::size_t count = reduces ? call.count : call.block_bytes();
    // MPI's reduce-scatter in place expects its input at another address.
    const bool other_place = task.in_place && call.collective == Collective::reduce_scatter;
    if (!type || !op || other_place || (reduces && !agrees(task)) || !may_serve(call.collective) ||
        count > most_elements(task))
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: no {} of {} elements of {}", name(), name_of(call.op),
                              call.count, name_of(call.type)));
    if (!on_stream_) {
      run(task, static_cast<int>(count), *type, *op);
      return;
    }
    backend_.host_call(stream, [this, task, count = static_cast<int>(count), type = *type,
                                op = *op] { run(task, count, type, op); });
  }

 protected:
  static constexpr std::size_t most = std::numeric_limits<int>::max();
  /// In one of the counts of the call.
  virtual std::size_t most_elements(const Task& /*task*/) const { return most; }
  /// An error ends the program, which is MPI's default, so the result is always success.
  virtual int run(const Task& task, int count, MPI_Datatype type, MPI_Op op) {
    const int root = task.call.root;
    const bool both = task.in_place && task.send != nullptr && task.recv != nullptr;
    const void* send = both ? MPI_IN_PLACE : task.send;
    void* recv = task.recv;
    switch (task.call.collective) {
      case Collective::reduce_scatter:
        return MPI_Reduce_scatter_block(send, recv, count, type, op, mpi_);
      case Collective::all_gather:
        return MPI_Allgather(send, count, type, recv, count, type, mpi_);
      case Collective::broadcast:
        if (task.rank == root && !both && send != nullptr && recv != nullptr)
          std::memcpy(recv, send, task.recv_bytes());
        return MPI_Bcast(recv, count, type, root, mpi_);
      case Collective::reduce:
        return MPI_Reduce(send, recv, count, type, op, root, mpi_);
      case Collective::all_to_all:
        return MPI_Alltoall(send, count, type, recv, count, type, mpi_);
      case Collective::gather:
        return MPI_Gather(send, count, type, recv, count, type, root, mpi_);
      case Collective::scatter:
        return MPI_Scatter(task.send, count, type, both ? MPI_IN_PLACE : recv, count, type, root,
                           mpi_);
      case Collective::send_recv:
        return MPI_Sendrecv(send, count, type, (task.rank + 1) % task.ranks, 0, recv, count, type,
                            (task.rank + task.ranks - 1) % task.ranks, 0, mpi_, MPI_STATUS_IGNORE);
      case Collective::scan:
        return MPI_Scan(send, recv, count, type, op, mpi_);
      case Collective::exscan:
        return MPI_Exscan(send, recv, count, type, op, mpi_);
      case Collective::barrier:
        return MPI_Barrier(mpi_);
      default:
        return MPI_Allreduce(send, recv, count, type, op, mpi_);
    }
  }

  MPI_Comm mpi() const { return mpi_; }

 private:
  Backend& backend_;
  bool on_stream_;
  MPI_Comm mpi_ = MPI_COMM_NULL;
};

/// MPI's calls with a count per rank, with the counts of Plait's.
class CountedMpiPeer final : public MpiPeer {
 public:
  CountedMpiPeer(Communicator& comm, const Arena& arena, bool on_stream)
      : MpiPeer(comm, arena, on_stream, "peer:mpi-v") {
    const int from = (comm.rank() + comm.size() - 1) % comm.size();
    const int to = (comm.rank() + 1) % comm.size();
    MPI_Dist_graph_create_adjacent(mpi(), 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &ring_);
  }
  ~CountedMpiPeer() override { MPI_Comm_free(&ring_); }

  bool may_serve(Collective collective) const override {
    return find_counted(collective) != nullptr;
  }
  bool wants_uneven_blocks(Collective collective) const override {
    return may_serve(collective) && find_counted(collective)->uneven;
  }

 private:
  std::size_t most_elements(const Task& task) const override {
    return most / static_cast<std::size_t>(task.ranks);  // displacements are ints, too
  }
  int run(const Task& task, int count, MPI_Datatype type, MPI_Op op) override {
    counts_.assign(static_cast<std::size_t>(task.ranks), count);
    for (std::size_t rank = 0; rank < task.counts.size(); ++rank)
      counts_[rank] = static_cast<int>(task.counts[rank]);
    begins_.resize(counts_.size());
    for (int rank = 0; rank < task.ranks; ++rank)
      begins_[static_cast<std::size_t>(rank)] = rank * count;
    const int* const counts = counts_.data();
    const int* const begins = begins_.data();
    const int root = task.call.root;
    const bool both = task.in_place && task.send != nullptr && task.recv != nullptr;
    const void* const send = both ? MPI_IN_PLACE : task.send;
    void* const recv = task.recv;
    switch (task.call.collective) {
      case Collective::all_gather:
        return MPI_Allgatherv(send, count, type, recv, counts, begins, type, mpi());
      case Collective::gather:
        return MPI_Gatherv(send, count, type, recv, counts, begins, type, root, mpi());
      case Collective::scatter:
        return MPI_Scatterv(task.send, counts, begins, type, both ? MPI_IN_PLACE : recv, count,
                            type, root, mpi());
      case Collective::send_recv:
        return MPI_Neighbor_alltoallv(task.send, counts, begins, type, recv, counts, begins, type,
                                      ring_);
      case Collective::reduce_scatter:
        return MPI_Reduce_scatter(send, recv, counts, type, op, mpi());
      default:
        return MPI_Alltoallv(send, counts, begins, type, recv, counts, begins, type, mpi());
    }
  }

  MPI_Comm ring_ = MPI_COMM_NULL;
  std::vector<int> counts_, begins_;
};

bool has_begun() {
  int begun = 0;
  MPI_Initialized(&begun);
  return begun != 0;
}

int ranks_of_mpi() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  // Under other launchers MPI would take each process for a job with one rank. A torchrun below a
  // launcher of MPI's has inherited the variables of that.
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    begun_ = begun_ || environment(name).has_value();
  begun_ = begun_ && !(environment("RANK") && environment("MASTER_ADDR"));
  int provided = 0;
  if (begun_) MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
}
MpiSession::~MpiSession() {
  if (begun_) MPI_Finalize();
}

int MpiSession::rank() const {
  int rank = 0;
  if (begun_) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
std::unique_ptr<Bootstrap> MpiSession::make_world() const {
  return begun_ ? make_mpi_bootstrap(MPI_COMM_WORLD) : make_world_bootstrap();
}
void MpiSession::abort(int status) const {
  std::fflush(stdout);
  if (has_begun()) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version = text.data();
  return version.substr(0, version.find_first_of(",\n"));
}

std::unique_ptr<Contender> make_mpi_peer(Communicator& comm, const Arena& arena, bool on_stream,
                                         bool counted, std::string& why_not) {
  int provided = MPI_THREAD_SINGLE;
  const bool over_mpi = has_begun() && ranks_of_mpi() == comm.size();
  if (over_mpi) MPI_Query_thread(&provided);
  if (comm.backend_kind() != BackendKind::host)
    why_not = "MPI is measured on host memory, with --backend host";
  else if (!over_mpi) why_not = "the ranks have not met over MPI: start them with mpirun";
  else if (provided < MPI_THREAD_SERIALIZED)
    why_not = "this MPI does not offer MPI_THREAD_SERIALIZED";
  else if (counted) return std::make_unique<CountedMpiPeer>(comm, arena, on_stream);
  else return std::make_unique<MpiPeer>(comm, arena, on_stream);
  return nullptr;
}

}  // namespace plait::bench
