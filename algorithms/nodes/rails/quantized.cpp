#include <array>
#include <limits>
#include <string_view>

#include "algorithms/nodes/rails/quantized_kernel.hpp"
#include "algorithms/nodes/rails/rails_algorithm.hpp"

namespace plait::quantized {
namespace {

/// Rounds what travels between nodes or, where all ranks are on one, from rank to rank.
class Quantized : public rails::RailsAlgorithm {
 public:
  explicit Quantized(Format format) : RailsAlgorithm(Collective::all_reduce), format_(format) {}
  StaticName name() const override { return of_format().name; }
  StaticName family() const override { return "quantized"; }
  std::string_view summary() const override { return of_format().summary; }
  bool is_lossy() const override { return true; }
  double estimate(const Call&, const Topology&) const override {
    return std::numeric_limits<double>::infinity();
  }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    Args args{arguments(call, buffers, shape, context), format_};
    context.launch(family(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    if (call.type != DataType::f32) return Support::no("only f32 is quantized");
    if (call.op != ReduceOp::sum && call.op != ReduceOp::avg && call.op != ReduceOp::premul_sum)
      return Support::no("only sums and averages are quantized");
    return fits(topology, unit, false);
  }
  rails::Plan::Work work(const Call& call, const Topology& topology) const override {
    rails::Plan::Work work = RailsAlgorithm::work(call, topology);
    work.everywhere = work.everywhere && fits(topology, unit);
    return work;
  }

 private:
  /// The codes of a chunk fit the room of its data, but for shorter chunks than this.
  static constexpr std::size_t unit = 512;
  struct Description {
    StaticName name;
    std::string_view summary;
  };
  const Description& of_format() const {
    static constexpr std::array<Description, 3> all{{
        {"quantized_bf16",
         "f32 travel between nodes, or between ranks of one node, as bf16; only when named"},
        {"quantized_f16",
         "f32 travel between nodes, or between ranks of one node, as f16; only when named"},
        {"quantized_int8",
         "f32 travel between nodes, or between ranks of one node, as 8-bit integers with a scale "
         "for each 128; only when named"},
    }};
    return all[static_cast<std::size_t>(format_)];
  }

  Format format_;
};
template <Format F>
struct As final : Quantized {
  As() : Quantized(F) {}
};

const AlgorithmRegistration<As<Format::bf16>> as_bf16;
const AlgorithmRegistration<As<Format::f16>> as_f16;
const AlgorithmRegistration<As<Format::int8>> as_int8;

}  // namespace
}  // namespace plait::quantized
