#include "core/shared_object.hpp"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace plait {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Entry = ElfW(Dyn);

/// `count` values from `offset` on. None if the file ends before them.
template <class T>
std::optional<std::vector<T>> read_array(const UserFile& file, std::uint64_t offset,
                                         std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  if (offset > file.bytes || bytes > file.bytes - offset) return std::nullopt;
  std::vector<T> values(count);
  const ssize_t n =
      ::pread(file.descriptor.get(), values.data(), bytes, static_cast<off_t>(offset));
  if (n != static_cast<ssize_t>(bytes)) return std::nullopt;
  return values;
}

bool is_in_file(const UserFile& file, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= file.bytes && bytes <= file.bytes - offset;
}

/// True if a segment maps this address of the object from the file.
bool is_mapped(const std::vector<Segment>& segments, std::uint64_t address) {
  return std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
    return segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
           address - segment.p_vaddr < segment.p_filesz;
  });
}

/// Without these tables the linker reads from address 0.
constexpr std::array<std::int64_t, 2> needed_tables = {DT_STRTAB, DT_SYMTAB};
/// Tables whose addresses the linker uses without a check.
constexpr std::array<std::int64_t, 12> tables = {
    DT_STRTAB, DT_SYMTAB,     DT_HASH,       DT_GNU_HASH, DT_RELA,    DT_REL,
    DT_JMPREL, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_VERSYM,   DT_VERNEED, DT_VERDEF};

std::string why_damaged_section(const std::vector<Segment>& segments,
                                const std::vector<Entry>& entries) {
  const auto end = std::find_if(entries.begin(), entries.end(),
                                [](const Entry& entry) { return entry.d_tag == DT_NULL; });
  if (end == entries.end()) return "its dynamic section has no end";
  for (const std::int64_t table : needed_tables)
    if (std::none_of(entries.begin(), end,
                     [&](const Entry& entry) { return entry.d_tag == table; }))
      return "its dynamic section names no symbols: is a part of the file overwritten?";
  for (auto entry = entries.begin(); entry != end; ++entry)
    if (std::find(tables.begin(), tables.end(), entry->d_tag) != tables.end() &&
        !is_mapped(segments, entry->d_un.d_ptr))
      return "its dynamic section names a table that is in none of its segments";
  return {};
}

}  // namespace

std::string why_damaged(const UserFile& file) {
  const std::string cut = fmt::format(
      "the file ends after {} bytes, before what its headers name: it was cut short", file.bytes);
  const auto headers = read_array<Header>(file, 0, 1);
  if (!headers) return {};
  const Header& header = headers->front();
  constexpr unsigned char word = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  const bool is_elf =
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == word;
  if (!is_elf || header.e_phentsize != sizeof(Segment)) return {};
  const auto segments = read_array<Segment>(file, header.e_phoff, header.e_phnum);
  if (!segments) return cut;
  // Linkers write the table of sections last, so it shows any cut. Files that were stripped of it
  // have none.
  if (header.e_shoff != 0 &&
      !is_in_file(file, header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize))
    return cut;
  for (const Segment& segment : *segments) {
    if (segment.p_filesz != 0 && !is_in_file(file, segment.p_offset, segment.p_filesz)) return cut;
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto entries =
        read_array<Entry>(file, segment.p_offset, segment.p_filesz / sizeof(Entry));
    if (!entries) return cut;
    if (std::string why = why_damaged_section(*segments, *entries); !why.empty()) return why;
  }
  return {};
}

}  // namespace plait
