// The functions of fmt 9 that are no templates, and the instantiations that its headers expect in a
// library. cmake/PlaitFmt.cmake gives the reason.
#include <fmt/format-inl.h>

namespace fmt::detail {
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
}  // namespace fmt::detail
