// What of fmt 9 is no template, and what of its templates its headers expect elsewhere:
// cmake/PlaitFmt.cmake says what for.
#include <fmt/format-inl.h>

namespace fmt::detail {
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
}  // namespace fmt::detail
