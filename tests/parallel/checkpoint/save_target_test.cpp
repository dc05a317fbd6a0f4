#include <doctest/doctest.h>

#include <parallel/checkpoint/save_target.hpp>

namespace save_target_test {
namespace pc = parallel::checkpoint;

TEST_CASE("save target: a checkpoint's name is its epoch and batch, and other names are not") {
  CHECK(pc::checkpoint_id{1, 4800}.text() == "ep1-ba4800");
  CHECK(pc::checkpoint_id::parse("ep1-ba4800") == pc::checkpoint_id{1, 4800});
  for (auto const* other : {"", "ep", "ep1", "ep1-ba", "ep-ba1", "ep1-ba2x", "ep01-ba2", "ep1-ba-2",
                            "ep1-ba2.tmp-0000000000000000", "xep1-ba2", "ep+1-ba2",
                            "ep1-ba99999999999999999999", "latest"})
    CHECK_FALSE(pc::checkpoint_id::parse(other).has_value());
  CHECK(pc::checkpoint_id{0, 9} < pc::checkpoint_id{0, 10});
  CHECK(pc::checkpoint_id{1, 9} < pc::checkpoint_id{0, 10});
  pc::save_target const target{"root", {0, 12}, 17};
  CHECK(target.folder().native() == "root/ep0-ba12");
  CHECK(target.temporary().native() == "root/ep0-ba12.tmp-0000000000000011");
}

}  // namespace save_target_test
