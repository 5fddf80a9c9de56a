#include "model/host_threads.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "backends/model/execution.hpp"

namespace plait::test {
namespace {

using model::Execution, model::Explorer, model::Thread, model::Value;

/// Of the one program that is explored.
struct State {
  bool time_passes = false;
  std::int64_t now = 0;        // nanoseconds
  std::set<char*> given_back;  // memory
} state;

/// What a hook does for the thread that calls it, unless nobody explores or it is the explorer's
/// own code that calls.
class Hook {
 public:
  Hook() {
    Explorer* const explorer = Explorer::of_thread();
    if (explorer == nullptr || explorer->execution() == nullptr) return;
    Thread* const running = explorer->execution()->running();
    if (running == nullptr || running->in_explorer) return;
    execution_ = explorer->execution();
    thread_ = running;
    thread_->in_explorer = true;
  }
  ~Hook() {
    if (thread_ != nullptr) thread_->in_explorer = false;
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  explicit operator bool() const { return thread_ != nullptr; }
  Execution& execution() { return *execution_; }
  Thread& thread() { return *thread_; }

  void plain(const void* place, std::size_t bytes, bool stores) {
    if (!execution_->watches(place)) return;
    look_for_given_back(place);
    execution_->plain(*thread_, address(place), bytes, stores);
  }
  template <class T>
  T load(const volatile T* place, bool acquires) {
    look_for_given_back(const_cast<const T*>(place));
    Value value{};
    execution_->await(
        *thread_, address(place), &value, sizeof(T), [](const Value&) { return true; }, acquires);
    return static_cast<T>(value[0]);
  }
  template <class T>
  void store(volatile T* place, T value, bool releases) {
    look_for_given_back(const_cast<const T*>(place));
    execution_->store(*thread_, address(place), &value, sizeof(T), releases);
  }
  /// Waits until `change(value)` gives a new value. Returns the old one.
  template <class T, class Change>
  T update(volatile T* place, Change change, bool acquires, bool releases) {
    look_for_given_back(const_cast<const T*>(place));
    const model::Update of_value = [change](const Value& value) -> std::optional<Value> {
      const std::optional<T> result = change(static_cast<T>(value[0]));
      if (!result) return std::nullopt;
      return Value{static_cast<std::uint64_t>(*result)};
    };
    return static_cast<T>(
        execution_->update(*thread_, address(place), sizeof(T), of_value, acquires, releases)[0]);
  }

 private:
  static std::uintptr_t address(const volatile void* place) {
    return reinterpret_cast<std::uintptr_t>(place);
  }
  void look_for_given_back(const void* place) {
    auto* const byte = const_cast<char*>(static_cast<const char*>(place));
    const auto after = state.given_back.upper_bound(byte);
    if (after == state.given_back.begin()) return;
    char* const block = *std::prev(after);
    if (byte < block + malloc_usable_size(block))
      execution_->fail(*thread_, "memory is used that was given back");
  }

  Execution* execution_ = nullptr;
  Thread* thread_ = nullptr;
};

constexpr bool acquires(int order) {
  return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}
constexpr bool releases(int order) { return order >= __ATOMIC_RELEASE; }

// A mutex is one word: 0, or 1 if a thread has it. A condition variable is one word, too, with a
// bit of each thread that waits and, in the upper half, of each that has been woken.
std::uint32_t* word_of(pthread_mutex_t* mutex) { return reinterpret_cast<std::uint32_t*>(mutex); }
std::uint64_t* word_of(void* cond) { return static_cast<std::uint64_t*>(cond); }

void lock(Hook& hook, pthread_mutex_t* mutex) {
  hook.update(
      word_of(mutex),
      [](std::uint32_t held) { return held == 0 ? std::optional(1u) : std::nullopt; }, true, false);
}
void unlock(Hook& hook, pthread_mutex_t* mutex) { hook.store(word_of(mutex), 0u, true); }

/// False: its time was over before it was woken.
bool wait(Hook& hook, void* cond, pthread_mutex_t* mutex, bool for_ever) {
  const std::uint64_t mine = std::uint64_t{1} << hook.thread().number, woken = mine << 32;
  hook.update(
      word_of(cond), [=](std::uint64_t word) { return std::optional(word | mine); }, true, true);
  unlock(hook, mutex);
  const auto leave = [=](std::uint64_t word) -> std::optional<std::uint64_t> {
    if (for_ever && (word & woken) == 0) return std::nullopt;
    return word & ~(mine | woken);
  };
  const std::uint64_t before = hook.update(word_of(cond), leave, true, true);
  lock(hook, mutex);
  return (before & woken) != 0;
}
void notify(Hook& hook, void* cond, bool all) {
  const auto wake = [=](std::uint64_t word) {
    const std::uint64_t waiting = word & 0xffffffff, chosen = all ? waiting : waiting & -waiting;
    return std::optional((word & ~chosen) | chosen << 32);
  };
  hook.update(word_of(cond), wake, true, true);
}

void give_back_all() {
  for (char* block : state.given_back) std::free(block);
  state.given_back.clear();
}
void give_back(void* block) {
  if (Hook hook; hook && block != nullptr) {
    hook.plain(block, malloc_usable_size(block), true);
    state.given_back.insert(static_cast<char*>(block));
  } else {
    std::free(block);
  }
}

}  // namespace

model::Result explore(const HostProgram& host, std::size_t most, bool sample) {
  // An execution may end in the middle: what its threads have made is never destroyed.
  using Functions = std::vector<std::function<void()>>;
  auto* functions = new Functions;
  model::Program program;
  const auto make = [&] {
    give_back_all();
    functions = new Functions(host.make());
    state.time_passes = host.time_passes;
    state.now = 1'000'000'000;
  };
  make();
  for (std::size_t i = 0; i < functions->size(); ++i)
    program.ranks.push_back({{1, 1, [&functions, i](Thread&) { (*functions)[i](); }}});
  program.threads_of_its_own = host.threads_of_its_own;
  program.watches = host.watches;
  program.reset = make;
  program.check = [] { return std::string(); };
  program.name = [](std::uintptr_t address) { return fmt::format("{:x}", address); };
  Explorer explorer(most, sample);
  model::Result result = explorer.explore(program);
  give_back_all();
  return result;
}

void expect(bool right, const char* what) {
  if (Hook hook; hook && !right) hook.execution().fail(hook.thread(), what);
}
void await_end_of(int thread) {
  if (Hook hook; hook) hook.execution().await_end(hook.thread(), thread);
}

}  // namespace plait::test

using namespace plait::test;

// NOLINTBEGIN: the names of the compiler and of the system, and their types
void operator delete(void* block) noexcept { give_back(block); }
void operator delete(void* block, std::size_t) noexcept { give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give_back(block); }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** place, void*) {
  if (Hook hook; hook) hook.plain(place, 8, true);
}
void __tsan_vptr_read(void** place) {
  if (Hook hook; hook) hook.plain(place, 8, false);
}
#define PLAIT_ACCESS(name, bytes, stores)                  \
  void __tsan_##name##bytes(void* place) {                 \
    if (Hook hook; hook) hook.plain(place, bytes, stores); \
  }
#define PLAIT_ACCESSES(bytes)                \
  PLAIT_ACCESS(read, bytes, false)           \
  PLAIT_ACCESS(write, bytes, true)           \
  PLAIT_ACCESS(read_write, bytes, true)      \
  PLAIT_ACCESS(unaligned_read, bytes, false) \
  PLAIT_ACCESS(unaligned_write, bytes, true) \
  PLAIT_ACCESS(unaligned_read_write, bytes, true)
PLAIT_ACCESSES(1)
PLAIT_ACCESSES(2)
PLAIT_ACCESSES(4)
PLAIT_ACCESSES(8)
PLAIT_ACCESSES(16)
void __tsan_read_range(void* place, unsigned long bytes) {
  if (Hook hook; hook) hook.plain(place, bytes, false);
}
void __tsan_write_range(void* place, unsigned long bytes) {
  if (Hook hook; hook) hook.plain(place, bytes, true);
}

#define PLAIT_UPDATE(T, bits, name, change)                                                \
  T __tsan_atomic##bits##_##name(volatile T* place, T operand, int order) {                \
    if (Hook hook; hook)                                                                   \
      return hook.update(                                                                  \
          place, [operand]([[maybe_unused]] T value) { return std::optional<T>(change); }, \
          acquires(order), releases(order));                                               \
    T value = __atomic_load_n(place, __ATOMIC_SEQ_CST);                                    \
    while (!__atomic_compare_exchange_n(place, &value, static_cast<T>(change), false,      \
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {             \
    }                                                                                      \
    return value;                                                                          \
  }
#define PLAIT_EXCHANGE_IF(T, bits, name)                                                           \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile T* place, T* expected, T wanted,      \
                                                    int order, int) {                              \
    if (Hook hook; hook) {                                                                         \
      const T was = *expected,                                                                     \
              found = hook.update(                                                                 \
                  place, [=](T value) { return std::optional<T>(value == was ? wanted : value); }, \
                  acquires(order), releases(order));                                               \
      *expected = found;                                                                           \
      return found == was;                                                                         \
    }                                                                                              \
    return __atomic_compare_exchange_n(place, expected, wanted, false, __ATOMIC_SEQ_CST,           \
                                       __ATOMIC_SEQ_CST);                                          \
  }
#define PLAIT_ATOMICS(T, bits)                                              \
  T __tsan_atomic##bits##_load(const volatile T* place, int order) {        \
    if (Hook hook; hook) return hook.load(place, acquires(order));          \
    return __atomic_load_n(place, __ATOMIC_SEQ_CST);                        \
  }                                                                         \
  void __tsan_atomic##bits##_store(volatile T* place, T value, int order) { \
    if (Hook hook; hook) return hook.store(place, value, releases(order));  \
    __atomic_store_n(place, value, __ATOMIC_SEQ_CST);                       \
  }                                                                         \
  PLAIT_UPDATE(T, bits, exchange, operand)                                  \
  PLAIT_UPDATE(T, bits, fetch_add, static_cast<T>(value + operand))         \
  PLAIT_UPDATE(T, bits, fetch_sub, static_cast<T>(value - operand))         \
  PLAIT_UPDATE(T, bits, fetch_or, static_cast<T>(value | operand))          \
  PLAIT_UPDATE(T, bits, fetch_and, static_cast<T>(value & operand))         \
  PLAIT_EXCHANGE_IF(T, bits, strong)                                        \
  PLAIT_EXCHANGE_IF(T, bits, weak)
PLAIT_ATOMICS(std::uint8_t, 8)
PLAIT_ATOMICS(std::uint16_t, 16)
PLAIT_ATOMICS(std::uint32_t, 32)
PLAIT_ATOMICS(std::uint64_t, 64)

// At an even address, because that of a member function is even: std::async keeps that of join.
#define PLAIT_WRAP(Result, name, parameters, arguments, ...) \
  Result __real_##name parameters;                           \
  [[gnu::aligned(2)]] Result __wrap_##name parameters;       \
  Result __wrap_##name parameters {                          \
    Hook hook;                                               \
    if (!hook) return __real_##name arguments;               \
    __VA_ARGS__                                              \
  }
PLAIT_WRAP(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex), lock(hook, mutex);
           return 0;)
PLAIT_WRAP(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex), unlock(hook, mutex);
           return 0;)
PLAIT_WRAP(int, pthread_cond_clockwait,
           (void* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* until),
           (cond, mutex, clock, until), if (wait(hook, cond, mutex, false)) return 0;
           state.now = std::max(state.now, until->tv_sec * 1'000'000'000 + until->tv_nsec);
           return ETIMEDOUT;)
PLAIT_WRAP(void, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,
           (void* cond, std::unique_lock<std::mutex>& mutex), (cond, mutex),
           wait(hook, cond, mutex.mutex()->native_handle(), true);)
PLAIT_WRAP(void, _ZNSt18condition_variable10notify_oneEv, (void* cond), (cond),
           notify(hook, cond, false);)
PLAIT_WRAP(void, _ZNSt18condition_variable10notify_allEv, (void* cond), (cond),
           notify(hook, cond, true);)
PLAIT_WRAP(std::int64_t, _ZNSt6chrono3_V212steady_clock3nowEv, (), (),
           return state.now += state.time_passes ? 1'000'000 : 0;)
PLAIT_WRAP(int, sched_yield, (), (), hook.execution().pause(hook.thread()); return 0;)
PLAIT_WRAP(int, nanosleep, (const timespec* time, timespec* left), (time, left),
           hook.execution().pause(hook.thread());
           return 0;)
PLAIT_WRAP(void*, memcpy, (void* to, const void* from, unsigned long bytes), (to, from, bytes),
           hook.plain(from, bytes, false);
           hook.plain(to, bytes, true); return __real_memcpy(to, from, bytes);)
// A std::thread has nothing but its identity, which is here its number and one more. Its function
// is a `std::thread::_State`, which is private since libstdc++ 14.
struct ThreadFunction {
  virtual ~ThreadFunction() = default;
  virtual void run() = 0;
};
PLAIT_WRAP(void,
           _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE,
           (std::uint64_t * identity, std::unique_ptr<ThreadFunction>& function, void (*depend)()),
           (identity, function, depend),
           const std::shared_ptr<ThreadFunction> its(std::move(function));
           *identity = 1 + static_cast<std::uint64_t>(hook.execution().start(
                               hook.thread(), [its](Thread&) { its->run(); }));)
PLAIT_WRAP(void, _ZNSt6thread4joinEv, (std::uint64_t * identity), (identity),
           hook.execution().await_end(hook.thread(), static_cast<int>(*identity) - 1);
           *identity = 0;)
}
// NOLINTEND
