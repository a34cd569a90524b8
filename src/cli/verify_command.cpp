// cairn verify checks every byte of a checkpoint, or of all in a directory.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/step_lists.hpp"
#include "cli/target.hpp"
#include "io/local_path.hpp"
#include "store/commit/ownership.hpp"
#include "tools/node_saves.hpp"
#include "tools/repair.hpp"
#include "tools/verify_beside.hpp"

namespace cairn::cli {
namespace {

const char* word(Verdict verdict) {
  constexpr const char* words[] = {"whole", "damaged", "cannot tell"};
  return words[static_cast<int>(verdict)];
}

const char* word(Finding::Kind kind) {
  constexpr const char* words[] = {"damage", "unknown", "note"};
  return words[static_cast<int>(kind)];
}

void print(const Verification& checked) {
  print_line(cat(checked.prefix, ": ", word(checked.verdict()), " (",
                 bytes_text(static_cast<double>(checked.bytes)), " read in ", checked.files,
                 checked.files == 1 ? " data file" : " data files", ", ", checked.tensors,
                 checked.tensors == 1 ? " tensor" : " tensors", ")"));
  for (const auto& finding : checked.findings) {
    auto line = cat("  ", word(finding.kind), ": ", finding.what);
    // Errors of the file system name the file already.
    const auto& file = finding.file;
    if (!file.empty() && line.find(printable(file)) == std::string::npos) line += ": " + file;
    if (finding.offset >= 0) line += cat(" at byte ", finding.offset);
    print_line(line);
  }
}

void print(const Repair& repair) {
  for (const auto& one : repair.done) print_line(cat("  repaired: ", one));
  for (const auto& one : repair.left) print_line(cat("  not repaired: ", one));
  print(repair.after);
}

Json json_of(const Verification& checked) {
  Json out;
  out["prefix"] = checked.prefix;
  out["verdict"] = word(checked.verdict());
  out["exit_code"] = static_cast<int>(checked.verdict());
  out["saved_by_cairn"] = checked.ours;
  out["files"] = checked.files;
  out["tensors"] = checked.tensors;
  out["bytes"] = checked.bytes;
  Json findings = Json::array();
  for (const auto& finding : checked.findings) {
    Json item;
    item["kind"] = word(finding.kind);
    item["what"] = finding.what;
    if (!finding.key.empty()) add_key(item, finding.key);
    if (!finding.slice.empty()) item["slice"] = finding.slice;
    if (!finding.file.empty()) item["file"] = finding.file;
    if (finding.offset >= 0) item["offset"] = finding.offset;
    findings.push_back(std::move(item));
  }
  out["findings"] = std::move(findings);
  return out;
}

// Repairs what is damaged, as the owner of the directory.
std::optional<Repair> repair(const Tool& tool, const io::Path& given) {
  constexpr double wait_seconds = 2;  // a dying process holds its lock for a moment
  const auto prefix = tool.here.at(io::absolute_path(given));
  if (!may_be_repaired(prefix)) return std::nullopt;
  return repair_checkpoint(prefix, commit::OwnedName::take(prefix, wait_seconds));
}

// Damage counts more than something that could not be checked.
int worse(int a, int b) { return a == 1 || b == 1 ? 1 : std::max(a, b); }

// Checks what this node has, in addition to the directory.
void verify_nodes(Tool& tool, const std::string& directory, const std::string& tier,
                  const std::vector<std::string>& nodes, bool json) {
  const auto proof = verify_node_saves(require_directory(tool.at(directory)), tier, nodes);
  if (!proof.damage.empty()) tool.exit_code = static_cast<int>(Verdict::damaged);
  if (json) {
    Json damage = Json::array();
    for (const auto& one : proof.damage) {
      damage.push_back({{"path", one.path.string()}, {"why", one.why}});
    }
    return print_json(
        {{"parts", proof.parts}, {"bytes", proof.bytes}, {"damaged", std::move(damage)}});
  }
  for (const auto& one : proof.damage) {
    print_line(cat(one.path.string(), ": damaged: ", one.why));
  }
  print_line(cat(proof.parts, " parts on this node or brought home are whole, ",
                 bytes_text(static_cast<double>(proof.bytes))));
}

struct VerifyOptions {
  std::string target;
  TierOption tier;
  bool json = false, repair = false;
};

std::optional<FoundBeside> read_all(const Address& target, const Address& prefix) {
  ProgressBar bar(cat("verify ", prefix.name()));
  return verify_beside(target, prefix, bar.callback());
}

void tell_of_removal(const Address& prefix, bool json, Json& all) {
  if (json) {
    all.push_back({{"prefix", prefix.string()}, {"verdict", "removed"}});
  } else {
    print_line(cat(prefix.string(), ": removed meanwhile, by the job that saves here"));
  }
}

Finding note_of_removal() {
  Finding note;
  note.what = "its removal did not finish: the next job, or cairn gc, gives it back";
  return note;
}

// The lists of a directory in a bucket, and what does not count by them.
void verify_lists(Tool& tool, const Address& directory, bool json, Json& all) {
  for (const auto& path : damaged_lists(directory)) {
    tool.exit_code = worse(tool.exit_code, static_cast<int>(Verdict::damaged));
    if (json) {
      all.push_back({{"prefix", path}, {"verdict", "damaged"}, {"exit_code", 1}});
    } else {
      print_line(cat(path, ": damaged: ", what_damaged_lists_do));
    }
  }
  if (!json) print_beside(directory, beside_lists(directory));
}

// False if none was there any more, and some were when they were looked for.
bool verify_those_there(Tool& tool, const VerifyOptions& options, Json& all) {
  bool any = false, any_gone = false;
  const auto target = tool.at(options.target).view();
  for (const auto& prefix : checkpoints_beside(target)) {
    auto found = read_all(target, prefix);
    if (!found) {
      any_gone = true;
      tell_of_removal(prefix, options.json, all);
      continue;
    }
    any = true;
    auto& [checked, is_set_aside] = *found;
    if (is_set_aside) checked.findings.push_back(note_of_removal());
    std::optional<Repair> repaired;
    if (options.repair && checked.verdict() == Verdict::damaged && !is_set_aside) {
      repaired = repair(tool, prefix.path());
    }
    const auto& is_then = repaired ? repaired->after : checked;
    tool.exit_code = worse(tool.exit_code, static_cast<int>(is_then.verdict()));
    if (options.json) {
      all.push_back(json_of(is_then));
      if (repaired) all.back()["repaired"] = repaired->done;
      if (repaired) all.back()["not_repaired"] = repaired->left;
    } else {
      print(checked);
      if (repaired) print(*repaired);
      std::cout.flush();
    }
  }
  return any || !any_gone;
}

void verify(Tool& tool, const VerifyOptions& options) {
  const auto& tier = options.tier;
  if (!tier.tier.empty()) {
    return verify_nodes(tool, options.target, tier.tier, tier.nodes, options.json);
  }
  Json all = Json::array();
  // A job that keeps few may remove all that were found before they are read.
  for (int looks = 64; !verify_those_there(tool, options, all) && looks > 0; --looks) continue;
  const auto target = tool.at(options.target).view();
  if (target.is_directory()) verify_lists(tool, target, options.json, all);
  if (options.json) print_json(all);
}

}  // namespace

void add_verify(Tool& tool) {
  auto options = std::make_shared<VerifyOptions>();
  auto* command = tool.app.add_subcommand("verify", "Read every byte and say what is damaged");
  command->add_option("PREFIX", options->target, "Checkpoint or directory (all in it)")->required();
  command->add_flag("--json", options->json, "Print JSON, an array");
  command->add_flag("--repair", options->repair,
                    "Restore damaged parts from equal bytes elsewhere");
  add_tier(*command, options->tier, "Verify this node's files of the run in PREFIX");
  command->footer(
      "Exit status: 0 if the checkpoint, or each in the directory, is whole; 1 if any is\n"
      "damaged; else 2: cannot tell (missing, unreadable, or with variants, which are not\n"
      "decoded). What a job removes meanwhile does not count. In Cairn's checkpoints every byte\n"
      "is checked; in others', unused bytes and partly stored tensors are notes.\n"
      "--repair (Cairn's checkpoints only) restores the index from its spare copy, a data file\n"
      "from another checkpoint with the same slices and checksums, and writes lost metadata\n"
      "anew. If the result is not whole, the replaced parts are put back, except an unreadable\n"
      "index. What retention or a save removed does not come back. --repair refuses while a job\n"
      "saves there. The exit status is the result's.\n\n"
      "Examples:\n"
      "  cairn verify run/ckpt && echo all whole\n"
      "  cairn verify run/ckpt --repair");
  command->callback([&tool, options] {
    if (options->repair) commit::require_path(tool.at(options->target).path());
    verify(tool, *options);
  });
}

}  // namespace cairn::cli
