// What collectives that end in a function must do. All ranks call each function.
#pragma once
#include "plait/communicator.hpp"

namespace plait::test {

/// Which rows the function gets, with which values: of all three collectives, by each way.
void check_rows(Communicator& comm);
/// The shipped functions, beside the separate calls, whose bits they have, and beside formulas.
void check_row_functions(Communicator& comm);
/// Results do not depend on how many rows there are.
void check_batches(Communicator& comm);
/// In graphs and groups, over their own input.
void check_rows_in_graphs(Communicator& comm);

}  // namespace plait::test
