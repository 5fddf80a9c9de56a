#include "interop/pmpi/data.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>

#include "plait/error.hpp"

namespace plait::pmpi {
namespace {

enum class Kind : std::uint8_t { integer, real, complex, logical, byte, text, pair };

struct KnownType {
  MPI_Datatype mpi;
  DataType own;
  Kind kind;
};

/// The commonest first. Handles of some MPIs are addresses, so this is no constant.
std::span<const KnownType> known_types() {
  using D = DataType;
  using K = Kind;
  static const std::vector<KnownType> all = [] {
    std::vector<KnownType> types = {{MPI_DOUBLE, D::f64, K::real},
                                    {MPI_INT, data_type_of<int>, K::integer},
                                    {MPI_FLOAT, D::f32, K::real},
                                    {MPI_LONG, data_type_of<long>, K::integer},
                                    {MPI_UNSIGNED_LONG, data_type_of<unsigned long>, K::integer},
                                    {MPI_INT64_T, D::i64, K::integer},
                                    {MPI_UINT64_T, D::u64, K::integer},
                                    {MPI_INT32_T, D::i32, K::integer},
                                    {MPI_UINT32_T, D::u32, K::integer},
                                    {MPI_UNSIGNED, data_type_of<unsigned>, K::integer},
                                    {MPI_DOUBLE_PRECISION, D::f64, K::real},
                                    {MPI_INTEGER, D::i32, K::integer},
                                    {MPI_REAL, D::f32, K::real},
                                    {MPI_LONG_LONG, D::i64, K::integer},
                                    {MPI_UNSIGNED_LONG_LONG, D::u64, K::integer},
                                    {MPI_INT16_T, D::i16, K::integer},
                                    {MPI_UINT16_T, D::u16, K::integer},
                                    {MPI_INT8_T, D::i8, K::integer},
                                    {MPI_UINT8_T, D::u8, K::integer},
                                    {MPI_SHORT, D::i16, K::integer},
                                    {MPI_UNSIGNED_SHORT, D::u16, K::integer},
                                    {MPI_SIGNED_CHAR, D::i8, K::integer},
                                    {MPI_UNSIGNED_CHAR, D::u8, K::integer},
                                    {MPI_AINT, D::i64, K::integer},
                                    {MPI_OFFSET, D::i64, K::integer},
                                    {MPI_COUNT, D::i64, K::integer},
                                    {MPI_INTEGER4, D::i32, K::integer},
                                    {MPI_INTEGER8, D::i64, K::integer},
                                    {MPI_REAL4, D::f32, K::real},
                                    {MPI_REAL8, D::f64, K::real},
                                    {MPI_C_FLOAT_COMPLEX, D::complex_f32, K::complex},
                                    {MPI_C_DOUBLE_COMPLEX, D::complex_f64, K::complex},
                                    {MPI_COMPLEX, D::complex_f32, K::complex},
                                    {MPI_DOUBLE_COMPLEX, D::complex_f64, K::complex},
                                    {MPI_C_BOOL, D::boolean, K::logical},
                                    {MPI_BYTE, D::u8, K::byte},
                                    {MPI_CHAR, D::u8, K::text},
                                    {MPI_FLOAT_INT, D::f32_i32, K::pair},
                                    {MPI_DOUBLE_INT, D::f64_i32, K::pair},
                                    {MPI_2INT, D::i32_i32, K::pair},
                                    {MPI_LONG_INT, D::i64_i32, K::pair}};
    // An MPI without Fortran lacks some, or gives them other sizes than C's.
    std::erase_if(types, [](const KnownType& type) {
      if (type.mpi == MPI_DATATYPE_NULL) return true;
      MPI_Aint lower = 0, extent = 0;
      return PMPI_Type_get_extent(type.mpi, &lower, &extent) != MPI_SUCCESS ||
             extent != static_cast<MPI_Aint>(size_of(type.own));
    });
    return types;
  }();
  return all;
}

const KnownType* known(MPI_Datatype type) {
  thread_local const KnownType* last = nullptr;
  if (last != nullptr && last->mpi == type) return last;
  const auto all = known_types();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const KnownType& k) { return k.mpi == type; });
  return found == all.end() ? nullptr : last = &*found;
}

/// For a type that the program has made: whether its elements lie in a row, in their order.
bool is_row(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner == MPI_COMBINER_NAMED) {
    if (known(type) != nullptr) return known(type)->kind != Kind::pair;
    int size = 0;
    MPI_Aint lower = 0, extent = 0;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &lower, &extent);
    return lower == 0 && extent == size;
  }
  if (combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_DUP) return false;
  std::array<int, 1> numbers{};
  MPI_Aint none = 0;
  MPI_Datatype of = MPI_DATATYPE_NULL;
  PMPI_Type_get_contents(type, integers, addresses, 1, numbers.data(), &none, &of);
  const bool row = is_row(of);
  PMPI_Type_get_envelope(of, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_NAMED) PMPI_Type_free(&of);
  return row;
}
bool lies_in_a_row(MPI_Datatype type) {
  const KnownType* const own = known(type);
  return own != nullptr ? own->kind != Kind::pair : is_row(type);
}

MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  return extent;
}
std::byte* place(std::byte* buffer, std::ptrdiff_t extents, MPI_Datatype type) {
  return buffer + extents * extent_of(type);
}

/// MPI_Pack and MPI_Unpack count bytes in int.
template <class Each>
void in_pieces(std::size_t count, MPI_Datatype type, const Each& each) {
  const std::size_t size = std::max<std::size_t>(bytes_of(1, type), 1);
  const std::size_t most = std::max<std::size_t>((INT_MAX / 2) / size, 1);
  for (std::size_t begin = 0; begin < count; begin += most)
    each(begin, static_cast<int>(std::min(most, count - begin)),
         static_cast<int>(std::min(most, count - begin) * size), begin * size);
}
void pack(std::byte* from, std::size_t count, MPI_Datatype type, std::byte* to, MPI_Comm comm) {
  in_pieces(count, type, [&](std::size_t begin, int elements, int bytes, std::size_t at) {
    int position = 0;
    PMPI_Pack(place(from, static_cast<std::ptrdiff_t>(begin), type), elements, type, to + at, bytes,
              &position, comm);
  });
}
void unpack(const std::byte* from, std::byte* to, std::size_t count, MPI_Datatype type,
            MPI_Comm comm) {
  in_pieces(count, type, [&](std::size_t begin, int elements, int bytes, std::size_t at) {
    int position = 0;
    PMPI_Unpack(from + at, bytes, &position, place(to, static_cast<std::ptrdiff_t>(begin), type),
                elements, type, comm);
  });
}

struct InBytes {
  std::size_t all = 0;       // of all blocks
  std::ptrdiff_t begin = 0;  // of the places in the buffer; MPI's may be negative
};
/// Counts and places in bytes. `in_a_row`: places as they are given; else one block behind the
/// other.
template <class Count, class Place>
InBytes to_bytes(const BlocksOfMpi<Count, Place>& given, int ranks, MPI_Datatype type,
                 bool in_a_row, std::vector<std::size_t>& counts,
                 std::vector<std::size_t>& places) {
  InBytes sum;
  const auto extent = static_cast<std::ptrdiff_t>(extent_of(type));
  const auto at = [&](int rank) {
    return static_cast<std::ptrdiff_t>(given.places[rank]) * extent;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    if (given.counts[rank] < 0) throw Error(ErrorCode::invalid_argument, "a negative count");
    if (in_a_row && given.counts[rank] != 0) sum.begin = std::min(sum.begin, at(rank));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(bytes_of(static_cast<std::size_t>(given.counts[rank]), type));
    const std::ptrdiff_t place = counts.back() == 0 ? 0 : at(rank) - sum.begin;
    places.push_back(in_a_row ? static_cast<std::size_t>(place) : sum.all);
    sum.all += counts.back();
  }
  return sum;
}

bool is_for(ReduceOp op, Kind kind) {
  using enum ReduceOp;
  switch (op) {
    case sum:
    case prod:
      return kind == Kind::integer || kind == Kind::real || kind == Kind::complex;
    case min:
    case max:
      return kind == Kind::integer || kind == Kind::real;
    case land:
    case lor:
    case lxor:
      return kind == Kind::integer || kind == Kind::logical;
    case band:
    case bor:
    case bxor:
      return kind == Kind::integer || kind == Kind::byte;
    case minloc:
    case maxloc:
      return kind == Kind::pair;
    default:
      return false;
  }
}

std::optional<ReduceOp> own_op(MPI_Op op) {
  using enum ReduceOp;
  const std::pair<MPI_Op, ReduceOp> all[] = {
      {MPI_SUM, sum},   {MPI_MAX, max},   {MPI_MIN, min},       {MPI_PROD, prod},
      {MPI_LAND, land}, {MPI_LOR, lor},   {MPI_LXOR, lxor},     {MPI_BAND, band},
      {MPI_BOR, bor},   {MPI_BXOR, bxor}, {MPI_MINLOC, minloc}, {MPI_MAXLOC, maxloc}};
  for (const auto& [mpi, own] : all)
    if (mpi == op) return own;
  return std::nullopt;
}

}  // namespace

std::optional<Reduced> reduced(MPI_Datatype type, MPI_Op op) {
  const KnownType* const own = known(type);
  if (own == nullptr) return std::nullopt;
  const auto as = own_op(op);
  if (!as || !is_for(*as, own->kind)) return std::nullopt;
  return Reduced{own->own, *as};
}

std::size_t bytes_of(std::size_t count, MPI_Datatype type) {
  if (const KnownType* const own = known(type); own != nullptr && own->kind != Kind::pair)
    return count * size_of(own->own);
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  return count * static_cast<std::size_t>(size);
}

Data::Data(Use use, const void* buffer, std::size_t count, MPI_Datatype type, MPI_Comm comm,
           bool apart)
    : use_(use),
      data_(static_cast<std::byte*>(const_cast<void*>(buffer))),
      bytes_(bytes_of(count, type)),
      type_(type),
      comm_(comm) {
  if (bytes_ == 0 || (!apart && lies_in_a_row(type))) return;
  parts_.push_back({data_, count, 0});
  packed_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
  data_ = packed_.get();
}

template <class Count, class Place>
Data::Data(Use use, const void* buffer, const BlocksOfMpi<Count, Place>& given, int ranks,
           MPI_Datatype type, MPI_Comm comm, bool apart)
    : use_(use), type_(type), comm_(comm) {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(buffer));
  const bool row = !apart && lies_in_a_row(type);
  const InBytes all = to_bytes(given, ranks, type, row, counts_, places_);
  bytes_ = all.all;
  data_ = begin + all.begin;
  if (row || bytes_ == 0) return;
  packed_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
  data_ = packed_.get();
  for (int rank = 0; rank < ranks; ++rank)
    parts_.push_back({place(begin, given.places[rank], type),
                      static_cast<std::size_t>(given.counts[rank]),
                      places_[static_cast<std::size_t>(rank)]});
}

void Data::pack() const {
  if (use_ == Use::received) return;
  for (const Part& part : parts_) pmpi::pack(part.at, part.count, type_, data_ + part.begin, comm_);
}
void Data::unpack() const {
  if (use_ == Use::sent) return;
  for (const Part& part : parts_)
    pmpi::unpack(data_ + part.begin, part.at, part.count, type_, comm_);
}
void Data::keep_type() {
  if (parts_.empty()) return;
  PMPI_Type_dup(type_, &type_);
  own_type_ = {nullptr, [type = type_](void*) mutable { PMPI_Type_free(&type); }};
}

template Data::Data(Use, const void*, const BlocksOfMpi<int, int>&, int, MPI_Datatype, MPI_Comm,
                    bool);
#if MPI_VERSION >= 4
template Data::Data(Use, const void*, const BlocksOfMpi<MPI_Count, MPI_Aint>&, int, MPI_Datatype,
                    MPI_Comm, bool);
#endif

}  // namespace plait::pmpi
