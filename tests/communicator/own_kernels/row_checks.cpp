#include "communicator/own_kernels/row_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/own_kernels/checks.hpp"
#include "communicator/own_kernels/row_kernels.hpp"
#include "plait/group.hpp"
#include "support/data.hpp"

namespace plait::test {
namespace {

/// From -4 to 4, with more digits than T has.
float number(std::uint64_t seed, int rank, std::size_t i) {
  return static_cast<float>(hash(seed, static_cast<std::uint64_t>(rank), i) >> 40) * 0x1p-21f - 4;
}
template <class T>
std::vector<T> numbers(std::uint64_t seed, int rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = narrow<T>(number(seed, rank, i));
  return all;
}
/// Of all ranks, in rank order, as f32.
template <class T>
float sum_of(std::uint64_t seed, int ranks, std::size_t i) {
  float sum = widen(narrow<T>(number(seed, 0, i)));
  for (int rank = 1; rank < ranks; ++rank) sum += widen(narrow<T>(number(seed, rank, i)));
  return widen(narrow<T>(sum));
}

struct Shape {
  std::size_t rows, columns;
  std::size_t size() const { return rows * columns; }
};
/// Of one piece, of less and more than a wave, of one, two, three and four parts, the last ones
/// short.
template <class T>
std::vector<Shape> shapes() {
  const std::size_t width = 16 / sizeof(T);
  return {{1, width},       {3, 7 * width},    {60, 65 * width}, {5, 512 * width},
          {1, 641 * width}, {2, 1100 * width}, {3, 2048 * width}};
}
constexpr RowsBy ways[] = {RowsBy::packets, RowsBy::one_shot, RowsBy::two_shot, RowsBy::size};

std::string name(const Shape& shape, RowsBy by) {
  return std::to_string(shape.rows) + " rows of " + std::to_string(shape.columns) + ", way " +
         std::to_string(static_cast<int>(by));
}

/// `value(row, column)` is what the function must get for its row.
template <class Value>
void expect_kept(const DeviceValues<float>& kept, const Shape& shape, const Value& value) {
  const std::vector<float> got = kept.get();
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const float* const own = got.data() + row * (1 + shape.columns);
    ASSERT_EQ(own[0], static_cast<float>(row));
    for (std::size_t i = 0; i < shape.columns; ++i)
      ASSERT_EQ(own[1 + i], value(row, i)) << "row " << row << ", column " << i;
  }
}

template <class T>
void check_sums_of_rows(Communicator& comm) {
  std::uint64_t seed = 100 * sizeof(T);
  for (const Shape& shape : shapes<T>())
    for (const RowsBy by : ways) {
      SCOPED_TRACE(name(shape, by));
      DeviceValues<T> from(comm, shape.size());
      DeviceValues<float> kept(comm, shape.rows * (1 + shape.columns));
      // Calls in a row, without a wait between them.
      for (int i = 0; i < 3; ++i)
        sum_rows(comm, {}, from.data(), shape.rows, shape.columns, Keep<T>{kept.data()}, by);
      from.set(numbers<T>(++seed, comm.rank(), shape.size()));
      sum_rows(comm, {}, from.data(), shape.rows, shape.columns, Keep<T>{kept.data()}, by);
      expect_kept(kept, shape, [&](std::size_t row, std::size_t column) {
        return sum_of<T>(seed, comm.size(), row * shape.columns + column);
      });
    }
}

void check_rows_of_ranks(Communicator& comm) {
  std::uint64_t seed = 900;
  const auto n = static_cast<std::size_t>(comm.size());
  for (const Shape& own : shapes<bf16>())
    for (const RowsBy by : {RowsBy::packets, RowsBy::one_shot, RowsBy::size}) {
      SCOPED_TRACE(name(own, by));
      const Shape all{n * own.rows, own.columns};
      DeviceValues<bf16> from(comm, all.size());
      DeviceValues<float> kept(comm, all.rows * (1 + all.columns));
      from.set(numbers<bf16>(++seed, comm.rank(), all.size()));
      const Keep<bf16> keep{kept.data()};
      scatter_rows(comm, {}, from.data(), own.rows, own.columns, keep, by);
      expect_kept(kept, own, [&](std::size_t row, std::size_t column) {
        const std::size_t first = static_cast<unsigned>(comm.rank()) * own.rows;
        return sum_of<bf16>(seed, comm.size(), (first + row) * own.columns + column);
      });
      gather_rows(comm, {}, from.data(), own.rows, own.columns, keep, by);
      expect_kept(kept, all, [&](std::size_t row, std::size_t column) {
        const std::size_t i = row % own.rows * own.columns + column;
        return widen(narrow<bf16>(number(seed, static_cast<int>(row / own.rows), i)));
      });
    }
}

/// Runs a function fused, and after a separate all-reduce on a communicator of this rank alone.
/// `make(out)` makes the function that writes into these bytes. Returns what both wrote.
template <class T, class Make>
std::vector<std::byte> both(Communicator& comm, Communicator& alone, const Shape& shape,
                            std::uint64_t seed, std::size_t bytes, RowsBy by, const Make& make) {
  DeviceValues<T> from(comm, shape.size());
  DeviceValues<std::byte> fused(comm, bytes), separate(comm, bytes);
  from.set(numbers<T>(seed, comm.rank(), shape.size()));
  sum_rows(comm, {}, from.data(), shape.rows, shape.columns, make(fused.data()), by);
  comm.all_reduce(from.data(), from.data(), shape.size(), data_type_of<T>, ReduceOp::sum, {},
                  {.algorithm = "reproducible"});
  comm.synchronize();
  sum_rows(alone, {}, from.data(), shape.rows, shape.columns, make(separate.data()),
           RowsBy::packets);
  alone.synchronize();
  EXPECT_EQ(fused.get(), separate.get()) << name(shape, by);
  return fused.get();
}

template <class U>
const U* at(const std::vector<std::byte>& bytes, std::size_t offset = 0) {
  return reinterpret_cast<const U*>(bytes.data() + offset);
}

/// `y` and what x of each row it is made of, by the formula, in f64.
template <class T, class Check>
void for_each_normal(const Shape& shape, std::uint64_t seed, int ranks, int rank, float epsilon,
                     const Check& check) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::vector<double> x(shape.columns);
    double squares = 0;
    for (std::size_t i = 0; i < shape.columns; ++i) {
      const std::size_t at = row * shape.columns + i;
      x[i] = double{sum_of<T>(seed, ranks, at)} +
             double{widen(narrow<T>(number(seed + 50, rank, at)))};
      squares += x[i] * x[i];
    }
    const double factor =
        1 / std::sqrt(squares / static_cast<double>(shape.columns) + double{epsilon});
    for (std::size_t i = 0; i < shape.columns; ++i) x[i] *= factor;
    check(row, x);
  }
}

template <class Function, class T, class Out, class Weight>
void check_norm(Communicator& comm, Communicator& alone, const Shape& shape, std::uint64_t seed,
                RowsBy by, double step) {
  DeviceValues<T> residual(comm, shape.size());
  DeviceValues<Weight> weight(comm, shape.columns);
  DeviceValues<float> scale(comm, 1);
  residual.set(numbers<T>(seed + 50, comm.rank(), shape.size()));
  weight.set(numbers<Weight>(seed + 51, 0, shape.columns));
  constexpr float of_tensor = 0.03125f, epsilon = 1e-3f;
  scale.set({of_tensor});
  const std::size_t scales = 2 * shape.size() * sizeof(T);
  const auto bytes = both<T>(
      comm, alone, shape, seed, scales + shape.rows * sizeof(float), by, [&](std::byte* out) {
        return Function{.residual = residual.data(),
                        .weight = weight.data(),
                        .residual_out = reinterpret_cast<T*>(out),
                        .out = reinterpret_cast<Out*>(out + shape.size() * sizeof(T)),
                        .epsilon = epsilon,
                        .scale = scale.data(),
                        .row_scales = reinterpret_cast<float*>(out + scales)};
      });
  const Out* const out = at<Out>(bytes, shape.size() * sizeof(T));
  const float* const row_scales = at<float>(bytes, scales);
  for_each_normal<T>(
      shape, seed, comm.size(), comm.rank(), epsilon, [&](std::size_t row, const auto& x) {
        for (std::size_t i = 0; i < shape.columns; ++i) {
          double y = x[i] * double{widen(narrow<Weight>(number(seed + 51, 0, i)))}, got = 0,
                 unit = 1;
          if constexpr (std::is_same_v<Out, T>) {
            got = double{widen(out[row * shape.columns + i])};
          } else {
            unit = double{row_scales[row] != 0 ? row_scales[row] : of_tensor};
            if constexpr (std::is_same_v<Out, std::int8_t>) {
              got = unit * static_cast<double>(out[row * shape.columns + i]);
            } else {
              got = unit * double{widen(out[row * shape.columns + i])};
              y = std::clamp(y, -448 * unit, 448 * unit);
            }
          }
          const double least = std::is_same_v<Out, std::int8_t> ? unit : std::abs(y) + unit / 64;
          ASSERT_NEAR(got, y, step * least) << "row " << row << ", column " << i;
        }
      });
}

void check_bias(Communicator& comm, Communicator& alone, const Shape& shape, std::uint64_t seed,
                RowsBy by) {
  DeviceValues<bf16> bias(comm, shape.columns);
  DeviceValues<float> bias_of_floats(comm, shape.columns);
  bias.set(numbers<bf16>(seed + 1, 0, shape.columns));
  bias_of_floats.set(numbers<float>(seed + 1, 0, shape.columns));
  const auto gelu =
      both<bf16>(comm, alone, shape, seed, shape.size() * sizeof(bf16), by, [&](std::byte* out) {
        return BiasGelu{.bias = bias.data(), .out = reinterpret_cast<bf16*>(out)};
      });
  const Shape of_floats{shape.rows, shape.columns / 2};
  const auto silu =
      both<float>(comm, alone, of_floats, seed, of_floats.size(), by, [&](std::byte* out) {
        return BiasSilu{.bias = bias_of_floats.data(), .out = reinterpret_cast<f8e5m2*>(out)};
      });
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const double x = double{sum_of<bf16>(seed, comm.size(), i)} +
                     double{widen(narrow<bf16>(number(seed + 1, 0, i % shape.columns)))};
    const double y = x / 2 * (1 + std::erf(x / std::sqrt(2.0)));  // which Gelu is close to
    ASSERT_NEAR(double{widen(at<bf16>(gelu)[i])}, y, 0x1p-8 * std::abs(y) + 2e-3);
  }
  for (std::size_t i = 0; i < of_floats.size(); ++i) {
    const double x = double{sum_of<float>(seed, comm.size(), i)} +
                     double{number(seed + 1, 0, i % of_floats.columns)};
    const double y = x / (1 + std::exp(-x));
    ASSERT_NEAR(double{widen(at<f8e5m2>(silu)[i])}, y, 0x1p-3 * std::abs(y) + 1e-4);
  }
}

float tree(std::vector<float> terms) {
  for (std::size_t size = terms.size() / 2; size > 0; size /= 2)
    for (std::size_t i = 0; i < size; ++i) terms[i] += terms[i + size];
  return terms[0];
}
/// The order that `Row::sum` promises: packs in order of their elements, 32 packs by halves, and 64
/// such groups by halves of their first and last 32.
float tree_of_squares(const std::vector<float>& x, std::size_t width) {
  std::vector<float> halves[2] = {std::vector<float>(32), std::vector<float>(32)};
  for (std::size_t group = 0; group < 64; ++group) {
    std::vector<float> packs(32);
    for (std::size_t pack = 0; pack < 32; ++pack)
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t at = (group * 32 + pack) * width + i;
        if (at < x.size()) packs[pack] = std::fma(x[at], x[at], packs[pack]);
      }
    halves[group / 32][group % 32] = tree(packs);
  }
  return tree(halves[0]) + tree(halves[1]);
}

void check_squares(Communicator& comm, Communicator& alone, const Shape& shape, std::uint64_t seed,
                   RowsBy by) {
  const std::size_t squares = shape.size() * sizeof(f16);
  const auto bytes = both<f16>(
      comm, alone, shape, seed, squares + shape.rows * sizeof(float), by, [&](std::byte* out) {
        return SumOfSquares<f16>{.out = reinterpret_cast<f16*>(out),
                                 .squares = reinterpret_cast<float*>(out + squares)};
      });
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::vector<float> x(shape.columns);
    for (std::size_t i = 0; i < shape.columns; ++i) {
      x[i] = sum_of<f16>(seed, comm.size(), row * shape.columns + i);
      ASSERT_EQ(widen(at<f16>(bytes)[row * shape.columns + i]), x[i]);
    }
    ASSERT_EQ(at<float>(bytes, squares)[row], tree_of_squares(x, 16 / sizeof(f16)));
  }
}

}  // namespace

void check_rows(Communicator& comm) {
  check_sums_of_rows<bf16>(comm);
  check_sums_of_rows<f16>(comm);
  check_sums_of_rows<float>(comm);
  check_rows_of_ranks(comm);
}

void check_row_functions(Communicator& comm) {
  Communicator alone = comm.split(comm.rank(), 0).value();
  std::uint64_t seed = 2000;
  for (const Shape& shape : {Shape{2, 4096}, {17, 768}, {1, 5128}, {1, 16384}})
    for (const RowsBy by : ways) {
      SCOPED_TRACE(name(shape, by));
      seed += 100;
      check_norm<Norm, bf16, bf16, bf16>(comm, alone, shape, seed, by, 0x1p-8);
      check_norm<NormByTensor, bf16, f8e4m3, float>(comm, alone, shape, seed, by, 0x1p-4);
      check_norm<NormByRow, bf16, f8e4m3, bf16>(comm, alone, shape, seed, by, 0x1p-4);
      check_norm<NormToIntegers, f16, std::int8_t, f16>(comm, alone, shape, seed, by, 0.51);
      check_norm<NormOfFloats, float, float, float>(comm, alone, {shape.rows, shape.columns / 2},
                                                    seed, by, 1e-5);
      check_bias(comm, alone, shape, seed, by);
      check_squares(comm, alone, shape, seed, by);
    }
}

void check_batches(Communicator& comm) {
  const Shape all{300, 2048};
  DeviceValues<bf16> from(comm, all.size()), together(comm, all.size()), apart(comm, all.size()),
      weight(comm, all.columns);
  from.set(numbers<bf16>(7, comm.rank(), all.size()));
  weight.set(numbers<bf16>(8, 0, all.columns));
  const auto norm = [&](bf16* out) {
    return Norm{.residual = nullptr, .weight = weight.data(), .residual_out = nullptr, .out = out};
  };
  sum_rows(comm, {}, from.data(), all.rows, all.columns, norm(together.data()), RowsBy::size);
  std::size_t rows = 0;
  for (std::size_t begin = 0; begin < all.rows; begin += rows) {
    rows = std::min<std::size_t>(all.rows - begin, 1 + hash(begin) % 40);
    const std::size_t at = begin * all.columns;
    sum_rows(comm, {}, from.data() + at, rows, all.columns, norm(apart.data() + at), RowsBy::size);
  }
  EXPECT_EQ(std::memcmp(together.get().data(), apart.get().data(), all.size() * sizeof(bf16)), 0);
}

void check_rows_in_graphs(Communicator& comm) {
  const Stream stream = comm.create_stream();
  const Shape shape{20, 1024};
  DeviceValues<float> values(comm, shape.size()), residual(comm, shape.size()),
      weight(comm, shape.columns), kept(comm, shape.rows * (1 + shape.columns));
  weight.set(std::vector<float>(shape.columns, 0.5f), stream);
  const auto graph = captured(comm, stream, [&] {
    Group group;
    sum_rows(comm, stream, values.data(), shape.rows, shape.columns, Keep<float>{kept.data()},
             RowsBy::size);
    sum_rows(comm, stream, values.data(), shape.rows, shape.columns,
             NormOfFloats{.residual = residual.data(),
                          .weight = weight.data(),
                          .residual_out = residual.data(),
                          .out = values.data()},
             RowsBy::size);
    group.end();
  });
  std::vector<float> sums(shape.size());
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    values.set(numbers<float>(seed, comm.rank(), shape.size()), stream);
    {
      const DeviceScope device(backend_of(comm));
      graph->launch(stream.native());
    }
    for (std::size_t i = 0; i < shape.size(); ++i) sums[i] += sum_of<float>(seed, comm.size(), i);
    EXPECT_EQ(residual.get(stream), sums);
    expect_kept(kept, shape, [&](std::size_t row, std::size_t column) {
      return sum_of<float>(seed, comm.size(), row * shape.columns + column);
    });
    const std::vector<float> normal = values.get(stream);
    double squares = 0;
    for (const float y : normal) squares += double{y} * double{y};
    EXPECT_NEAR(squares / static_cast<double>(shape.size()), 0.25, 1e-4);
  }
}

}  // namespace plait::test
