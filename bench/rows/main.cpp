// plait-bench-rows: times an all-reduce with residual and RMSNorm as one kernel, beside the
// all-reduce alone and the two one after the other. Each process is one rank; rank 0 prints JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/peers/mpi.hpp"
#include "bench/program.hpp"
#include "bench/rows/kernels.hpp"
#include "bench/timing.hpp"

namespace plait::bench {
namespace {

constexpr const char* program = "plait-bench-rows";

struct Sizes {
  std::vector<std::size_t> columns = {4096, 8192, 5128};
  std::size_t most_rows = 2048;
};

/// A matrix of each kind, of the largest size.
struct Matrices {
  Matrices(Communicator& comm, std::size_t size, std::size_t columns)
      : from(comm.allocate<bf16>(size)),
        sum(comm.allocate<bf16>(size)),
        residual(comm.allocate<bf16>(size)),
        out(comm.allocate<bf16>(size)),
        weight(comm.allocate<bf16>(columns)),
        scales(comm.allocate<float>(size / columns)) {}
  Norm norm() const {
    return {.residual = residual.data(),
            .weight = weight.data(),
            .residual_out = residual.data(),
            .out = out.data()};
  }
  NormByRow by_row() const {
    return {.residual = residual.data(),
            .weight = weight.data(),
            .residual_out = residual.data(),
            .out = reinterpret_cast<f8e4m3*>(out.data()),
            .row_scales = scales.data()};
  }
  Buffer<bf16> from, sum, residual, out, weight;
  Buffer<float> scales;
};

class Bench {
 public:
  Bench(Communicator& comm, const Options& options)
      : comm_(comm), stream_(comm.create_stream()), timer_(comm, stream_.native(), options) {}

  /// First what one communicator does: with a second one on the device, kernels don't start early.
  void run(const Sizes& sizes) {
    each(sizes, nullptr);
    Communicator alone = comm_.split(comm_.rank(), 0).value();
    each(sizes, &alone);
  }

 private:
  void each(const Sizes& sizes, Communicator* alone) {
    for (const std::size_t columns : sizes.columns)
      for (std::size_t rows = 1; rows <= sizes.most_rows; rows *= 2) measure(rows, columns, alone);
  }
  /// `alone`: a communicator of this rank, for a separate kernel. Null: all but that.
  void measure(std::size_t rows, std::size_t columns, Communicator* alone) {
    const std::size_t size = rows * columns;
    const Matrices m(comm_, size, columns);
    const auto all_reduce = [&](bf16* from, bf16* to, NativeStream stream) {
      comm_.all_reduce(from, to, size, DataType::bf16, ReduceOp::sum, stream_ref(stream));
    };
    const auto fused = [&](Communicator& comm, const bf16* from, RowsBy by) {
      return [&, from, by](NativeStream stream) {
        sum_rows(comm, stream_ref(stream), from, rows, columns, m.norm(), by);
      };
    };
    const auto time = [&](const char* what, const Enqueue& enqueue) {
      const Times times = timer_.measure(enqueue, size * sizeof(bf16));
      if (comm_.rank() != 0) return;
      fmt::print(R"({{"rows":{},"columns":{},"bytes":{},"ranks":{},"what":"{}","median_us":{:.3f},)"
                 R"("least_us":{:.3f},"calls":{}}})"
                 "\n",
                 rows, columns, size * sizeof(bf16), comm_.size(), what, times.median(),
                 times.least(), timer_.calls());
    };
    if (alone != nullptr) {
      const auto norm = fused(*alone, m.sum.data(), RowsBy::packets);
      time("separate", [&](NativeStream s) {
        all_reduce(m.from.data(), m.sum.data(), s);
        norm(s);
      });
      time("norm", norm);
      return;
    }
    time("all_reduce", [&](NativeStream s) { all_reduce(m.from.data(), m.sum.data(), s); });
    time("fused", fused(comm_, m.from.data(), RowsBy::size));
    time("packets", fused(comm_, m.from.data(), RowsBy::packets));
    time("one_shot", fused(comm_, m.from.data(), RowsBy::one_shot));
    time("two_shot", fused(comm_, m.from.data(), RowsBy::two_shot));
    time("fused to fp8 by row", [&](NativeStream s) {
      sum_rows(comm_, stream_ref(s), m.from.data(), rows, columns, m.by_row(), RowsBy::size);
    });
  }

  Communicator& comm_;
  Stream stream_;
  Timer timer_;
};

int run(int argc, char** argv, std::unique_ptr<Bootstrap> world) {
  Sizes sizes;
  Options options;
  CLI::App app("Times an all-reduce that ends in residual and RMSNorm, in bf16.", program);
  app.add_option("--columns", sizes.columns, "lengths of rows")->delimiter(',');
  app.add_option("--rows", sizes.most_rows, "the most rows: 1, 2, 4, ...");
  app.add_option("--repeats", options.repeats, "repeats of each measurement");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return world->rank() == 0 ? app.exit(error) : bad_request;
  }
  Communicator comm = Communicator::create(std::move(world));
  Bench(comm, options).run(sizes);
  return ok;
}

}  // namespace
}  // namespace plait::bench

int main(int argc, char** argv) {
  using namespace plait::bench;
  const MpiSession mpi(argc, argv);
  return run_program(program, mpi, [&](std::unique_ptr<plait::Bootstrap> world) {
    return run(argc, argv, std::move(world));
  });
}
