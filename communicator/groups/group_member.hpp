// A communicator as groups see it.
#pragma once
#include <exception>
#include <string_view>
#include <vector>

#include "communicator/fault/refused_numbers.hpp"
#include "communicator/groups/birth.hpp"
#include "communicator/groups/group_plan.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "core/in_use.hpp"

namespace plait {

class GroupMember {
 public:
  /// Preparing a call waits for the other ranks (PLAIT_CHECK=1).
  virtual bool prepares_together() const = 0;

  /// Gives a call its number although this rank has refused it, so the other ranks' calls don't
  /// pair with later ones of this rank.
  virtual void publish_refused(const RefusedNumbers& numbers, const std::exception& why) = 0;
  virtual bool is_capturing(NativeStream stream) = 0;
  /// Plans the member's calls of a group, `what`. Throws if they can't be enqueued together, and
  /// leaves them.
  virtual GroupPlan plan(std::vector<GroupedCall>&& calls, std::string_view what) = 0;
  /// Publishes and launches the plan.
  virtual void submit(GroupPlan& plan) = 0;
  /// `submit` waits for the other ranks, because scratch memory must be allocated with them. A
  /// caller may do that part before `submit`: first `publish`, then `grow` on any thread.
  virtual bool grows(const GroupPlan& plan) const = 0;
  virtual void publish(GroupPlan& plan) = 0;
  virtual void grow(const GroupPlan& plan) = 0;

  /// As Backend's.
  virtual NativeStream resolve(NativeStream stream) const = 0;
  virtual const void* queue(NativeStream stream) const = 0;
  virtual int rank() const = 0;
  virtual const Birth& birth() const = 0;
  virtual void abort(std::string_view reason) = 0;
  /// A caller of any method but `abort` holds this.
  virtual InUse& in_use() = 0;

 protected:
  ~GroupMember() = default;
};

}  // namespace plait
