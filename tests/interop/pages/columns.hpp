// What the columns of a page need of each other.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "plait/mpi.hpp"
#include "plait/plait.h"
#include "plait/plait.hpp"

extern "C" {
#include "row.h"
}

namespace plait::test {

// Of the library in the left column:

/// MPI is initialised afterwards, unless a row of the page does that.
void begin_left();
/// True if the lines of the row leave nothing behind that can be compared.
bool leaves_nothing(std::string_view name);
/// True if the process would end. The row is then only compiled, and Plait's communicator aborted.
bool ends_process(std::string_view name);
/// Compares the page's types and operations with those of the library.
void check_constants(const page_row& row, Communicator& comm);

/// Waits for the stream that rows name. Nothing if there is none yet.
void wait_for_stream();

/// Checks that `left(in, out, count)` and Plait's all-reduce give the same bytes. No other type or
/// operation of that size gives them.
template <class Left>
void check_reduction(Communicator& comm, DataType type, plait_data_type in_c, ReduceOp op,
                     plait_reduce_op op_in_c, const Left& left) {
  EXPECT_EQ(static_cast<int>(type), static_cast<int>(in_c));
  EXPECT_EQ(static_cast<int>(op), static_cast<int>(op_in_c));
  alignas(8) std::array<unsigned char, 16> in, expected{}, out{};
  in.fill(comm.rank() == 0 ? 0x3c : 0xbd);
  // C's bool has no other bytes, and MPI leaves out those that pad a pair.
  if (type == DataType::boolean) in.fill(comm.rank() == 0 ? 1 : 0);
  if (type == DataType::f64_i32 || type == DataType::i64_i32)
    std::fill(in.begin() + 12, in.end(), static_cast<unsigned char>(0));
  const std::size_t count = in.size() / size_of(type);
  left(in.data(), expected.data(), count);
  comm.all_reduce(in.data(), out.data(), count, type, op);
  comm.synchronize();
  EXPECT_EQ(out, expected) << name_of(type) << ", " << name_of(op);
}

}  // namespace plait::test
