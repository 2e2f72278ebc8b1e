#include "cli/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/decimal.h"
#include "cli/model_name.h"
#include "core/version.h"
#include "draft/policy.h"
#include "engine/request.h"

namespace drafthorse {
namespace {

constexpr int kMostNumber = 1 << 30;  // of tokens and the like
constexpr const char* kModelHelp =
    "Model: a GGUF file, a folder of safetensors, hf:org/repo[:quantisation][@revision], or a short name (see list)";

// A value and, for a flag that is absent, none.
template <class T>
CLI::Option* optional_value(CLI::App& app, const std::string& name, std::optional<T>& value, const std::string& help) {
  return app.add_option_function<T>(
      name, [&value](const T& given) { value = given; }, help);
}

// One value a use, so that what follows is not swallowed.
CLI::Option* repeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return app.add_option(name, values, help)->allow_extra_args(false);
}

CLI::Option* bytes_value(CLI::App& app, const std::string& name, uint64_t& value, const std::string& help) {
  auto parse = [&value](const std::string& text) {
    Result<uint64_t> bytes = parse_bytes(text);
    if (!bytes) throw CLI::ValidationError(bytes.error().message);
    value = *bytes;
  };
  return app.add_option_function<std::string>(name, parse, help)->type_name("SIZE");
}

void add_model(CLI::App& app, Options& options) {
  app.add_option("-m,--model,model", options.model, kModelHelp)->type_name("MODEL");
  app.add_option("--models-dir", options.models_dir, "Folder of our own downloads")->type_name("DIR");
}

void add_cpu(CLI::App& app, Options& options) {
  app.add_option("-t,--threads", options.threads, "Threads; 0: as many as the machine gives this process")
      ->check(CLI::Range(0, 1024))
      ->group("Machine");
  app.add_option("--isa", options.isa, "Kernels of the CPU backend")
      ->check(CLI::IsMember({"auto", "portable", "avx2", "avx512", "neon"}))
      ->group("Machine");
}

void add_machine(CLI::App& app, Options& options) {
  app.add_option("--backend", options.backend, "What computes")
      ->check(CLI::IsMember({"auto", "cpu", "reference", "cuda", "mlx"}))
      ->group("Machine");
  app.add_option("-c,--ctx", options.context, "Positions that one conversation may have; 0: the model's own")
      ->check(CLI::Range(0, 1 << 27))
      ->group("Machine");
  bytes_value(app, "--memory", options.memory,
              "Most memory for weights, KV and caches, e.g. 8G; by default a share of the machine's")
      ->group("Machine");
  add_cpu(app, options);
}

void add_head(CLI::App& app, Options& options) {
  app.add_option(
         "--mtp", options.mtp,
         "File or folder with the model's multi-token prediction head, where it is not in the model or beside it")
      ->type_name("PATH")
      ->group("Drafting");
}

void add_drafting(CLI::App& app, Options& options) {
  add_head(app, options);
  app.add_option("--draft", options.draft, "Drafting: changes the speed, never the text")
      ->check(CLI::IsMember(std::vector<std::string>(kDraftModes.begin(), kDraftModes.end())))
      ->group("Drafting");
}

// Of one answer; the server's clients say it for themselves.
void add_max_draft(CLI::App& app, Options& options) {
  app.add_option("--max-draft", options.max_draft, "Most tokens of a draft; 0: measured")
      ->check(CLI::Range(0, kMostDraft))
      ->group("Drafting");
}

void add_sampling(CLI::App& app, Options& options) {
  auto in = [&](CLI::Option* option) { return option->group("Sampling (the model's own values by default)"); };
  in(optional_value(app, "--temperature,--temp", options.temperature, "0: the likeliest token"))
      ->check(CLI::Range(0.0, 100.0));
  in(optional_value(app, "--top-p", options.top_p, "Smallest set of tokens of this probability"))
      ->check(CLI::Range(0.0, 1.0));
  in(optional_value(app, "--top-k", options.top_k, "The k likeliest tokens; 0: all"))
      ->check(CLI::Range(0, kMostNumber));
  in(optional_value(app, "--min-p", options.min_p, "Tokens of this share of the likeliest one's probability"))
      ->check(CLI::Range(0.0, 1.0));
  in(optional_value(app, "--repetition-penalty", options.repetition_penalty, "Divides logits of tokens seen; 1: off"))
      ->check(CLI::Range(0.01, 100.0));
  in(optional_value(app, "--presence-penalty", options.presence_penalty, "Subtracted once from tokens of the answer"))
      ->check(CLI::Range(-2.0, 2.0));
  in(optional_value(app, "--frequency-penalty", options.frequency_penalty,
                    "Subtracted for each time a token was in the answer"))
      ->check(CLI::Range(-2.0, 2.0));
}

void add_seed(CLI::App& app, Options& options) {
  optional_value(app, "--seed", options.seed, "The same seed gives the same text")
      ->group("Sampling (the model's own values by default)");
}

void add_answer(CLI::App& app, Options& options) {
  optional_value(app, "-n,--max-tokens", options.max_tokens,
                 "Most tokens of the answer; by default until the context is full")
      ->check(CLI::Range(1, kMostNumber));
  repeated(app, "--stop", options.stop, "Text that ends the answer (may be given several times)");
  app.add_option("--system", options.system, "System message");
}

void add_json(CLI::App& app, Options& options) { app.add_flag("--json", options.json, "One JSON object on stdout"); }

void add_serve(CLI::App& root, Options& options) {
  CLI::App& app = *root.add_subcommand("serve", "Serve a model over the OpenAI API");
  add_model(app, options);
  ServerOptions& server = options.server;
  app.add_option("--host", server.host, "Address to bind")->capture_default_str()->group("Server");
  app.add_option_function<int>(
         "-p,--port", [&server](int port) { server.port = static_cast<uint16_t>(port); }, "Port; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->default_str(std::to_string(server.port))
      ->group("Server");
  repeated(app, "--api-key", server.api_keys, "Key that clients must send (may be given several times)")
      ->group("Server");
  app.add_flag("--no-auth", server.no_auth, "Allow other machines in without a key")->group("Server");
  repeated(app, "--allow-host", server.allow_hosts, "Name that the Host header may carry beside this machine's")
      ->group("Server");
  repeated(app, "--cors", server.cors_origins, "Web origin that may call from a browser; * for any")->group("Server");
  app.add_option_function<double>(
         "--grace",
         [&server](double seconds) { server.grace = std::chrono::milliseconds(std::llround(seconds * 1000)); },
         "Seconds that running requests get after SIGTERM (10)")
      ->check(CLI::Range(0.0, 3600.0))
      ->group("Server");
  app.add_option("--max-connections", server.max_connections, "Connections at once")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str()
      ->group("Server");
  bytes_value(app, "--max-body", server.max_body, "Largest request body (32M)")->group("Server");
  app.add_option("--model-id", options.model_id, "What the API calls the model")->group("Server");
  app.add_option("--parallel", options.parallel, "Requests that share steps; 0: chosen")
      ->check(CLI::Range(0, 1024))
      ->group("Server");
  app.add_option("--queue", options.queue, "Requests that may wait before others get 429")
      ->check(CLI::Range(0, 65536))
      ->group("Server");
  add_machine(app, options);
  add_drafting(app, options);
  add_sampling(app, options);
  app.add_flag("-q,--quiet", options.quiet, "No hints at the start");
}

void add_run(CLI::App& root, Options& options) {
  CLI::App& app = *root.add_subcommand("run", "Chat with a model in the terminal (/help there)");
  add_model(app, options);
  add_answer(app, options);
  add_machine(app, options);
  add_drafting(app, options);
  add_max_draft(app, options);
  add_sampling(app, options);
  add_seed(app, options);
}

void add_generate(CLI::App& root, Options& options) {
  CLI::App& app = *root.add_subcommand("generate", "Answer one prompt and exit");
  app.add_option("-m,--model", options.model, kModelHelp)->type_name("MODEL");
  app.add_option("--models-dir", options.models_dir, "Folder of our own downloads")->type_name("DIR");
  CLI::Option* prompt = optional_value(app, "-p,--prompt,prompt", options.prompt, "The prompt; stdin when absent");
  app.add_option("-f,--file", options.prompt_file, "File that holds the prompt")->type_name("FILE")->excludes(prompt);
  app.add_flag("--raw", options.raw, "Continue the prompt as it is, without the model's chat template");
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on after the end of the answer, up to --max-tokens");
  add_answer(app, options);
  add_json(app, options);
  add_machine(app, options);
  add_drafting(app, options);
  add_max_draft(app, options);
  add_sampling(app, options);
  add_seed(app, options);
}

void add_files(CLI::App& root, Options& options) {
  CLI::App& pull = *root.add_subcommand("pull", "Fetch a model (resumes; verifies)");
  add_model(pull, options);
  CLI::App& list = *root.add_subcommand("list", "Models on this machine and names that can be fetched");
  list.add_option("--models-dir", options.models_dir, "Folder of our own downloads")->type_name("DIR");
  add_json(list, options);
}

void add_bench_draft(CLI::App& app, Options& options) {
  app.add_option(
         "--draft", options.bench_drafts,
         "Drafts that repeat the known text, this share of them right: replay:0.7, and replay+mtp:0.7, which pays "
         "for the drafting head too (default replay:0.5,0.7,0.9)")
      ->delimiter(',')
      ->type_name("KIND:ACCEPTANCE");
  app.add_option("--depth", options.bench_depths, "Drafted tokens a step (default 1,2,4,8,16)")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostDraft));
  app.add_option("--repeats", options.bench_repeats, "Each ratio is the median of so many measurements")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  optional_value(app, "-n,--max-tokens", options.max_tokens, "Tokens of each answer (256)")
      ->check(CLI::Range(2, kMostNumber));
  optional_value(app, "-p,--prompt", options.prompt, "What is continued");
}

void add_looking(CLI::App& root, Options& options) {
  CLI::App& inspect =
      *root.add_subcommand("inspect", "What a model is made of, and how fast it can be on this machine");
  add_model(inspect, options);
  add_head(inspect, options);
  add_json(inspect, options);
  add_machine(inspect, options);

  CLI::App& bench = *root.add_subcommand("bench", "Measure this machine");
  bench.require_subcommand(1);
  CLI::App& kernels = *bench.add_subcommand("kernels", "Matrix products against the machine's read bandwidth");
  CLI::App& model = *bench.add_subcommand("model", "Prefill and decode speed of a model");
  CLI::App& draft = *bench.add_subcommand("draft", "What drafting gains at a set acceptance, by depth");
  for (CLI::App* app : {&kernels, &model, &draft}) {
    if (app != &kernels) {
      add_model(*app, options);
      add_head(*app, options);
      add_machine(*app, options);
    } else {
      add_cpu(*app, options);
    }
    add_json(*app, options);
    app->callback([&options, app] { options.what = app->get_name(); });
  }
  add_bench_draft(draft, options);
  kernels
      .add_option("--format", options.bench_formats,
                  "Weight formats, such as q4_k or affine4-64 (default: the usual six)")
      ->delimiter(',');
  kernels.add_option("--rows", options.bench_rows, "Rows at once (default 1,2,4,8,512)")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));

  CLI::App& selftest =
      *root.add_subcommand("selftest", "Check on this machine that nothing but the prompt changes the answer");
  selftest.footer("Without --model the demo model that comes with Drafthorse is checked.");
  add_model(selftest, options);
  add_json(selftest, options);
  add_machine(selftest, options);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The command that was being parsed, as deep as it goes.
const CLI::App& parsed_command(const CLI::App& root) {
  const CLI::App* app = &root;
  for (std::vector<CLI::App*> next = root.get_subcommands(); !next.empty(); next = app->get_subcommands())
    app = next[0];
  return *app;
}

Error usage(const std::string& message) { return {ErrorKind::invalid_argument, message, ""}; }

Error unknown(const CLI::App& app, const std::string& word, const std::string& shown) {
  bool option = word.starts_with('-');
  std::vector<std::string> known = option ? option_names(app) : command_names(app);
  std::string bare = word.substr(0, word.find('='));
  std::optional<std::string> near = nearest(bare, known);
  return usage(fmt::format("unknown {} '{}'; {}see {} --help",
                           option          ? "option"
                           : known.empty() ? "argument"
                                           : "command",
                           bare, near ? fmt::format("did you mean {}? ", *near) : "", shown));
}

// CLI11's words on one line, with the command's name and the way to help.
Error parse_error(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& app = parsed_command(root);
  std::string shown = "drafthorse";
  for (const CLI::App* at = &root; at != &app;) {
    at = at->get_subcommands()[0];
    shown += " " + at->get_name();
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    std::vector<std::string> extras = root.remaining(true);
    if (!extras.empty()) return unknown(app, extras.front(), shown);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) && !command_names(app).empty()) {
    return usage(
        fmt::format("{} needs a command: {}; see {} --help", shown, fmt::join(command_names(app), ", "), shown));
  }
  std::string message = error.what();
  std::ranges::replace(message, '\n', ' ');
  return usage(fmt::format("{}; see {} --help", message, shown));
}

}  // namespace

Result<uint64_t> parse_bytes(const std::string& text) {
  double value = 0;
  auto [end, code] = parse_decimal(text.data(), text.data() + text.size(), value);
  std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
  constexpr std::string_view kUnits = "KMGT";
  double factor = 1;
  bool known = unit.empty() || unit == "B";
  if (!known && kUnits.find(unit[0]) != kUnits.npos) {
    factor = std::pow(1024.0, static_cast<double>(kUnits.find(unit[0]) + 1));
    std::string rest = unit.substr(1);
    known = rest.empty() || rest == "B" || rest == "IB";
  }
  double bytes = value * factor;
  if (code != std::errc() || !known || !(bytes >= 0) || bytes > 1e18) {
    return Error{ErrorKind::invalid_argument, fmt::format("'{}' is no size; write 8G, 512M or a number of bytes", text),
                 "memory"};
  }
  return static_cast<uint64_t>(bytes);
}

Result<std::variant<Options, HelpText>> parse_options(int argc, const char* const* argv,
                                                      const Environment& environment) {
  Options options;
  options.environment = environment;
  options.models_dir = environment.models;
  CLI::App root("Drafthorse runs language models on this machine and serves them over the OpenAI API.", "drafthorse");
  root.require_subcommand(1);
  root.set_version_flag("--version", fmt::format("drafthorse {}", kVersion));
  root.footer(
      "drafthorse COMMAND --help says more. Without --model the default model is used and fetched when missing.");
  add_serve(root, options);
  add_run(root, options);
  add_generate(root, options);
  add_files(root, options);
  add_looking(root, options);
  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> commands = command_names(root);
    if (std::ranges::find(commands, argv[1]) == commands.end()) return unknown(root, argv[1], "drafthorse");
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return std::variant<Options, HelpText>(HelpText{root.help()});
  } catch (const CLI::CallForVersion& version) {
    return std::variant<Options, HelpText>(HelpText{std::string(version.what()) + "\n"});
  } catch (const CLI::ParseError& error) {
    return parse_error(root, error);
  }
  options.command = root.get_subcommands()[0]->get_name();
  return std::variant<Options, HelpText>(std::move(options));
}

}  // namespace drafthorse
