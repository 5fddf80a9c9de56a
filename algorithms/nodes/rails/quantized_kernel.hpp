// `rails` of f32 with fewer bits between nodes: partial sums and results travel along the rails as
// bf16, f16, or 8-bit integers with a scale for each 128 values (algorithms/nodes/rails/kernel.hpp
// has the stages, and the proof, which holds for any wire). On the nodes all is f32. Where all
// ranks are on one node, each is a node here, and its partial sum is its input.
//
// The rounding. Stage 2 makes a node's partial sum in the output, codes it, and puts back what
// the code stands for, so that all nodes add the same numbers. Unless all nodes reduce everywhere,
// stage 3 does the same with the result, so that all ranks get the same bits. With p(m) the partial
// sum of node m, the error of a result is at most
//   bf16, f16   u (|p(0)| + ... + |p(N-1)|) + u |result|     u = 2^-8, 2^-11
//   8 bits      (max p(0) + ... + max p(N-1) + max result) / 254
// where `max` is the largest magnitude of the 128 values that share a scale, plus what f32 rounds
// anyway. The term of the result is not there if all nodes reduce everywhere (two nodes, or 16 KB).
// f16 turns what is beyond 65504 into infinities, and loses what is below 2^-24. A NaN or infinity
// makes NaNs of all 128 values that share a scale; if all are below 2^-100, they become zeros.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/nodes/rails/kernel.hpp"

namespace plait::quantized {

using Types = TypeList<float>;

enum class Format : std::uint32_t { bf16, f16, int8 };

struct Args : rails::Args {
  Format format = Format::bf16;
};

/// Codes of one format. A *group* is as many packs of floats as have their codes in one pack; a
/// *unit* is a number of groups, with their scale behind them if the format has one.
template <class Code, class D>
class CodedWire {
 public:
  using P = Pack<float, D::pack_bytes>;
  using Output = Packs<float, D::pack_bytes>;
  static constexpr bool is_coded = true;
  static constexpr bool has_scale = sizeof(Code) == 1;

  PLAIT_DEVICE static constexpr std::size_t bytes(std::size_t packs) {
    return (packs + unit_packs - 1) / unit_packs * unit_bytes;
  }

  template <class SlotTo>
  PLAIT_DEVICE static void push(D& dev, const Output& data, const Range& range, int begin, int end,
                                int skipped, SlotTo slot_to) {
    for (std::size_t unit = dev.thread(); unit * unit_packs < range.size(); unit += dev.threads()) {
      const std::size_t first = range.begin + unit * unit_packs;
      float scale = 1, inverse = 1;
      if constexpr (has_scale) {
        scale = scale_of(dev, data, first, range.end);
        inverse = scale == 0 ? 0.0f : 1 / scale;
      }
      for (unsigned group = 0; group < unit_groups; ++group) {
        Pack<Code, D::pack_bytes> codes;
        PLAIT_UNROLL
        for (unsigned nth = 0; nth < ratio; ++nth) {
          const std::size_t i = first + group * ratio + nth;
          P pack = i < range.end ? data.load(dev, i) : P{};
          PLAIT_UNROLL
          for (std::size_t lane = 0; lane < P::lanes; ++lane) {
            const Code code = encode(pack.lane[lane], inverse);
            codes.lane[nth * P::lanes + lane] = code;
            pack.lane[lane] = decode(code, scale);
          }
          if (i < range.end) data.store(dev, i, pack);
        }
        for (int slot = begin; slot < end; ++slot)
          if (slot != skipped) dev.store(group_in(slot_to(slot) + unit * unit_bytes, group), codes);
      }
      if constexpr (has_scale) {
        for (int slot = begin; slot < end; ++slot)
          if (slot != skipped)
            dev.store(scale_in(slot_to(slot) + unit * unit_bytes), Scale{{scale}});
      }
    }
  }

  template <class SlotFrom>
  PLAIT_DEVICE static void add(D& dev, const Reducer<float>& reducer, const Output& data,
                               const Range& range, int nodes, int own, SlotFrom slot_from) {
    for_groups(dev, range, [&](std::size_t unit, unsigned group, std::size_t first) {
      P sums[ratio];
      const auto partials = [&](int node, P(&packs)[ratio]) {
        if (node != own) return take(dev, slot_from(node) + unit * unit_bytes, group, packs);
        PLAIT_UNROLL
        for (unsigned nth = 0; nth < ratio; ++nth)
          packs[nth] = first + nth < range.end ? data.load(dev, first + nth) : P{};
      };
      partials(0, sums);
      for (int node = 1; node < nodes; ++node) {
        P packs[ratio];
        partials(node, packs);
        PLAIT_UNROLL
        for (unsigned nth = 0; nth < ratio; ++nth) {
          auto sum = reducer.widened(sums[nth]);
          reducer.add_partial(sum, packs[nth]);
          sums[nth] = reducer.template rounded<sizeof(P)>(sum);
        }
      }
      PLAIT_UNROLL
      for (unsigned nth = 0; nth < ratio; ++nth) {
        auto sum = reducer.widened(sums[nth]);
        reducer.average(sum);
        if (first + nth < range.end)
          data.store(dev, first + nth, reducer.template rounded<sizeof(P)>(sum));
      }
    });
  }

  PLAIT_DEVICE static void pull(D& dev, const std::byte* slot, const Output& data,
                                const Range& range) {
    for_groups(dev, range, [&](std::size_t unit, unsigned group, std::size_t first) {
      P packs[ratio];
      take(dev, slot + unit * unit_bytes, group, packs);
      PLAIT_UNROLL
      for (unsigned nth = 0; nth < ratio; ++nth)
        if (first + nth < range.end) data.store(dev, first + nth, packs[nth]);
    });
  }

 private:
  using CodePack = Pack<Code, D::pack_bytes>;
  using Scale = Pack<float, 16>;
  static constexpr unsigned ratio = sizeof(float) / sizeof(Code);
  static constexpr unsigned scaled_values = 128;
  static constexpr unsigned unit_groups =
      has_scale ? scaled_values * sizeof(Code) / D::pack_bytes : 1;
  static constexpr unsigned unit_packs = unit_groups * ratio;
  static constexpr std::size_t unit_bytes =
      unit_groups * sizeof(CodePack) + (has_scale ? sizeof(Scale) : 0);
  static_assert(unit_groups > 0);

  /// Calls body(unit, group in it, its first pack) for this thread's share of a chunk.
  template <class Body>
  PLAIT_DEVICE static void for_groups(D& dev, const Range& range, Body body) {
    for (std::size_t i = dev.thread(); i * ratio < range.size(); i += dev.threads())
      body(i / unit_groups, static_cast<unsigned>(i % unit_groups), range.begin + i * ratio);
  }
  PLAIT_DEVICE static CodePack* group_in(std::byte* unit, unsigned group) {
    return reinterpret_cast<CodePack*>(unit) + group;
  }
  PLAIT_DEVICE static Scale* scale_in(std::byte* unit) {
    return reinterpret_cast<Scale*>(unit + unit_groups * sizeof(CodePack));
  }

  /// The packs of a group, from its unit.
  PLAIT_DEVICE static void take(D& dev, const std::byte* from, unsigned group, P (&packs)[ratio]) {
    auto* const unit = const_cast<std::byte*>(from);
    const CodePack codes = dev.load(const_cast<const CodePack*>(group_in(unit, group)));
    float scale = 1;
    if constexpr (has_scale) {
      scale = dev.load(const_cast<const Scale*>(scale_in(unit))).lane[0];
    }
    PLAIT_UNROLL
    for (unsigned nth = 0; nth < ratio; ++nth) {
      PLAIT_UNROLL
      for (std::size_t lane = 0; lane < P::lanes; ++lane)
        packs[nth].lane[lane] = decode(codes.lane[nth * P::lanes + lane], scale);
    }
  }

  /// The factor of a unit's codes: the largest magnitude / 127, at most the number of which 127
  /// times are finite. NaN if a value is no finite number.
  PLAIT_DEVICE static float scale_of(D& dev, const Output& data, std::size_t first,
                                     std::size_t end) {
    constexpr float largest_float = 0x1.fffffep127f, least = 0x1p-100f, most = 0x1.020406p121f;
    float largest = 0;
    bool is_finite = true;
    for (std::size_t i = first; i < first + unit_packs && i < end; ++i) {
      const P pack = data.load(dev, i);
      PLAIT_UNROLL
      for (std::size_t lane = 0; lane < P::lanes; ++lane) {
        const float x = pack.lane[lane], magnitude = x < 0 ? -x : x;
        is_finite = is_finite && magnitude <= largest_float;
        largest = magnitude > largest ? magnitude : largest;
      }
    }
    if (!is_finite) return bits_as<float>(0x7fffffffu);
    const float scale = largest / 127;
    return largest < least ? 0.0f : scale < most ? scale : most;
  }

  PLAIT_DEVICE static Code encode(float x, float inverse) {
    if constexpr (has_scale) {
      // Adding 1.5 * 2^23 rounds to a whole number, to nearest even. NaNs may become any number:
      // the scale is NaN, too.
      constexpr float magic = 12582912.0f;
      const std::uint32_t bits = bits_as<std::uint32_t>(x * inverse + magic);
      return static_cast<Code>(static_cast<std::uint8_t>(bits));
    } else {
      return narrow<Code>(x);
    }
  }
  PLAIT_DEVICE static float decode(Code code, float scale) {
    if constexpr (has_scale) {
      return with_one_nan(static_cast<float>(code) * scale);
    } else {
      return with_one_nan(widen(code));
    }
  }
};

template <class T>
struct Kernel {
  template <class Code>
  struct As {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      rails::Rails<T, D, CodedWire<Code, D>>(dev, a).run();
    }
  };
  using Cases = TypeList<As<bf16>, As<f16>, As<std::int8_t>>;
  static unsigned case_of(const Args& args) { return static_cast<unsigned>(args.format); }
};

}  // namespace plait::quantized
