#include "backends/host/program_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "backends/attached_range.hpp"
#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::host {
namespace {

/// A stretch of addresses with one file behind it, or none.
struct Mapping {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t offset = 0;  // of `begin` in the file
  dev_t device = 0;
  std::uint64_t inode = 0;  // 0: no file
  bool shared = false, writable = false;
  std::string path;

  bool is_shared_file() const { return shared && inode != 0; }
  std::uint64_t place_of(std::uint64_t address) const { return offset + (address - begin); }
};

/// Linux 6.11's question about one mapping (struct procmap_query of linux/fs.h).
struct MappingQuery {
  std::uint64_t size, flags, address, begin, end, vma_flags, page_size, offset, inode;
  std::uint32_t major, minor, name_bytes, build_id_bytes;
  std::uint64_t name, build_id;
};

/// /proc/self/maps. A child made by fork would see its parent's mappings by the parent's.
struct MapsFile {
  UniqueFd fd = new_fd([] { return ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC); });
};

/// Whether the system knew the question. `path`: whether it is wanted, which takes longer.
bool ask(std::uint64_t address, bool path, std::optional<Mapping>& found) {
  static OfProcess<MapsFile> maps;
  std::string name(path ? 4096 : 0, '\0');
  MappingQuery query{};
  query.size = sizeof query;
  query.address = address;
  if (path) {
    query.name = reinterpret_cast<std::uintptr_t>(name.data());
    query.name_bytes = name.size();
  }
  if (::ioctl(maps.get().fd.get(), _IOWR('f', 17, MappingQuery), &query) != 0)
    return errno == ENOENT;
  constexpr std::uint64_t writable = 2, shared = 8;
  found = {query.begin,
           query.end,
           query.offset,
           makedev(query.major, query.minor),
           query.inode,
           (query.vma_flags & shared) != 0,
           (query.vma_flags & writable) != 0,
           name.c_str()};
  return true;
}

/// Calls body(mapping) for each until it says no.
template <class Body>
void for_mappings(Body body) {
  const StandardFdsTaken taken;
  std::ifstream maps("/proc/self/maps");
  if (!maps) throw Error(ErrorCode::backend, "/proc/self/maps can't be opened");
  for (std::string line; std::getline(maps, line);) {
    Mapping m;
    std::array<char, 5> rights{};
    unsigned major = 0, minor = 0;
    int path = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu %n", &m.begin, &m.end, rights.data(),
                    &m.offset, &major, &minor, &m.inode, &path) < 7)
      continue;
    m.device = makedev(major, minor);
    m.writable = rights[1] == 'w';
    m.shared = rights[3] == 's';
    m.path = line.substr(static_cast<std::size_t>(path));
    if (!body(m)) return;
  }
}

std::optional<Mapping> search(std::uint64_t address) {
  std::optional<Mapping> found;
  for_mappings([&](const Mapping& m) {
    if (address >= m.begin && address < m.end) found = m;
    return !found;
  });
  return found;
}

std::optional<Mapping> mapping_at(std::uint64_t address, bool path = false) {
  std::optional<Mapping> found;
  return ask(address, path, found) ? found : search(address);
}

/// The mapping that `pointer` lies in, extended by those behind it as far as they continue the same
/// file. None if a page is not mapped. `path`: as for `ask`.
std::optional<Mapping> mapping_of(const void* pointer, std::size_t bytes, bool path = false) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto whole = mapping_at(address, path);
  while (whole && whole->end < address + bytes) {
    const auto next = mapping_at(whole->end);
    if (!next) return std::nullopt;
    whole->writable = whole->writable && next->writable;
    if (next->inode != whole->inode || next->device != whole->device ||
        next->shared != whole->shared || next->offset != whole->place_of(next->begin))
      whole->inode = 0;
    whole->end = next->end;
  }
  return whole;
}

/// What lengths and places of mappings of a file are multiples of: a page, in hugetlbfs a huge one.
std::size_t unit_of(const struct stat& file) {
  const auto page = static_cast<std::size_t>(::getpagesize()),
             block = static_cast<std::size_t>(file.st_blksize);
  return block % page == 0 ? std::max(page, block) : page;
}

/// Whether `fd` is the file of the mapping. The system names a file's device otherwise where file
/// systems lie over each other, so a mapping is compared with a mapping.
bool is_file_of(const Mapping& mapping, int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
      (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
    return false;
  const std::size_t unit = unit_of(file);
  void* const begin = ::mmap(nullptr, unit, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (begin == MAP_FAILED) return false;
  const auto found = mapping_at(reinterpret_cast<std::uintptr_t>(begin));
  ::munmap(begin, unit);
  return found && found->inode == mapping.inode && found->device == mapping.device;
}

/// A descriptor of the mapping's file: opened by its name, or, as for memory files, one that the
/// program has open. A process with many rights can open it in any case. Not valid if there is none
/// that can be written to.
UniqueFd open_file(const Mapping& mapping) {
  const auto is_it = [&](int fd) { return is_file_of(mapping, fd); };
  for (const std::string& path :
       {mapping.path, fmt::format("/proc/self/map_files/{:x}-{:x}", mapping.begin, mapping.end)}) {
    UniqueFd opened = new_fd([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
    if (opened.valid() && is_it(opened.get())) return opened;
  }
  const StandardFdsTaken taken;
  UniqueFd found;
  DIR* const all = ::opendir("/proc/self/fd");
  if (all == nullptr) return found;
  while (const dirent* entry = ::readdir(all)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || !is_it(fd)) continue;
    found = new_fd([&] { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); });
    if (found.valid() && is_it(found.get())) break;  // no other thread has closed it in between
    found = UniqueFd();
  }
  ::closedir(all);
  return found;
}

/// What `map_again` needs of a file, in the handle of an offer.
struct FileNumber {
  std::uint64_t device, inode;
};
FileNumber file_of(const MemoryOffer& offer) {
  FileNumber file{};
  std::memcpy(&file, offer.handle.data(), sizeof file);
  return file;
}

/// Where this process has the offered bytes of a file mapped itself, as all ranks have the whole of
/// an MPI window of shared memory; 0 if nowhere.
std::uint64_t own_mapping(const MemoryOffer& offer) {
  const FileNumber file = file_of(offer);
  const std::uint64_t place = offer.place + offer.offset;
  std::uint64_t found = 0;
  for_mappings([&](const Mapping& m) {
    if (m.is_shared_file() && m.writable && m.device == file.device && m.inode == file.inode &&
        m.offset <= place && place + offer.bytes <= m.place_of(m.end))
      found = m.begin + (place - m.offset);
    return found == 0;
  });
  return found;
}

/// `base` + `offset`, with what unmaps all of it.
std::shared_ptr<std::byte> keep(void* base, std::size_t bytes, std::size_t offset,
                                const char* call) {
  if (base == MAP_FAILED)
    throw Error(errno == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::backend,
                fmt::format("{} of {} bytes: {}", call, bytes, std::strerror(errno)));
  return {static_cast<std::byte*>(base) + offset,
          [base, bytes](const std::byte*) { ::munmap(base, bytes); }};
}

/// A second mapping of what this process has mapped: Linux makes one if the old size is 0. It needs
/// no file, and stays when the program unmaps the first.
std::shared_ptr<std::byte> map_again(const MemoryOffer& offer) {
  const std::uint64_t own = own_mapping(offer), page = static_cast<unsigned>(::getpagesize()),
                      within = own % page;
  if (own == 0) throw Error(ErrorCode::backend, "a rank's file is not mapped here any more");
  const std::size_t bytes = within + offer.bytes;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the system said so
  void* const old = reinterpret_cast<void*>(own - within);
  return keep(::mremap(old, 0, bytes, MREMAP_MAYMOVE), bytes, within, "mremap");
}

std::shared_ptr<std::byte> map(const MemoryOffer& offer, const UniqueFd& file) {
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      static_cast<std::uint64_t>(facts.st_size) < offer.place + offer.offset + offer.bytes)
    throw Error(ErrorCode::backend, "the file behind the memory of a rank is shorter than that");
  void* const base = ::mmap(nullptr, offer.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                            static_cast<off_t>(offer.place));
  return keep(base, offer.mapped, offer.offset, "mmap");
}

}  // namespace

MemoryOffer offer(void* pointer, std::size_t bytes, UniqueFd& descriptor) {
  const auto mapping = mapping_of(pointer, bytes, true);
  if (!mapping || !mapping->writable)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} with {} bytes is no memory that this process can write to", pointer,
                            bytes));
  MemoryOffer offer{.way = MemoryOffer::Way::system_calls,
                    .ordinal = ::getpid(),
                    .process = process_number(),
                    .address = reinterpret_cast<std::uintptr_t>(pointer),
                    .bytes = bytes};
  if (!mapping->is_shared_file()) return offer;
  descriptor = open_file(*mapping);
  struct stat facts {};
  // A place in a device is not the same memory in each process.
  if (!descriptor.valid() && ::stat(mapping->path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return offer;
  offer.way = descriptor.valid() ? MemoryOffer::Way::descriptor : MemoryOffer::Way::mapped_file;
  const FileNumber file{mapping->device, mapping->inode};
  std::memcpy(offer.handle.data(), &file, sizeof file);
  // Only what is needed, because a process has room for few mappings of a large file.
  if (!descriptor.valid() || ::fstat(descriptor.get(), &facts) != 0) facts = {};
  const std::size_t unit = unit_of(facts);
  const std::uint64_t place = mapping->place_of(offer.address);
  offer.offset = place % unit;
  offer.place = place - offer.offset;
  offer.mapped = (offer.offset + bytes + unit - 1) / unit * unit;
  return offer;
}

bool can_map(const MemoryOffer& offer) {
  return offer.way == MemoryOffer::Way::mapped_file ? own_mapping(offer) != 0
                                                    : offer.way != MemoryOffer::Way::system_calls;
}

std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                       std::span<UniqueFd> descriptors) {
  return std::make_shared<AttachedRange>(
      rank, offers,
      [&](std::size_t peer) -> std::shared_ptr<std::byte> {
        const MemoryOffer& offer = offers[peer];
        if (offer.process == process_number()) return nullptr;
        return offer.way == MemoryOffer::Way::mapped_file ? map_again(offer)
                                                          : map(offer, descriptors[peer]);
      },
      [](const auto& distances) {
        const auto table = std::make_shared<const std::vector<std::ptrdiff_t>>(distances);
        return std::shared_ptr<const std::ptrdiff_t>(table, table->data());
      });
}

std::uint64_t memory_number(const void* pointer, std::size_t bytes) {
  const auto mapping = mapping_of(pointer, bytes);
  if (!mapping || !mapping->is_shared_file()) return 0;
  const std::uint64_t place = mapping->place_of(reinterpret_cast<std::uintptr_t>(pointer));
  return (((mapping->inode * 0x9e3779b97f4a7c15u) ^ mapping->device) * 0x9e3779b97f4a7c15u ^
          place) |
         1;
}

}  // namespace plait::host
