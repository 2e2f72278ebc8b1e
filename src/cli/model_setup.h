#pragma once
// From Options to the option structs of the rooms above, and to a loaded model.

#include <memory>

#include "cli/model_source.h"
#include "cli/options.h"
#include "completion/completion.h"
#include "core/result.h"

namespace drafthorse {

bool stderr_is_terminal();
SourceOptions source_options(const Options& options);
// Backend, engine and sampling options; `path` is the model on disk.
LoadOptions load_options(const Options& options, const std::filesystem::path& path);
SamplingFields sampling_fields(const Options& options);
// Finds (or fetches) the model and its LoadOptions.
Result<LoadOptions> locate_model(const Options& options);
// And loads it, with a progress bar on a terminal when that takes long.
Result<std::shared_ptr<LoadedModel>> open_model(const Options& options);

// Lets go of the model. The engine's thread may hold it for a moment after the last event, and a model must not end on
// its own thread: waits for that.
void close_model(std::shared_ptr<LoadedModel> model);

}  // namespace drafthorse
