// Tables of algorithms for the documentation.
#pragma once
#include <string>

namespace plait::info {

/// Each table follows a line `<!-- table: NAME -->`. The text is the same on every machine and in
/// every build, because it asks the algorithms about reference machines; it leaves out the
/// algorithms of plug-ins. tools/docs_tables.py puts the tables into the pages.
std::string markdown();

}  // namespace plait::info
