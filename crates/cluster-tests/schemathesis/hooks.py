"""What a well-formed request may still be refused for, which a schema cannot say."""

import schemathesis

# Each is part of what the server answers with 422.
NOT_OF_FORM = (
    "put it first",  # the task names a blob that nobody has put
    "the bytes sent have the SHA-256",  # a blob is named by the hash of its bytes, and these are other bytes
    "is not a zip",  # any base64 fits the schema of a zip
    "another search",  # a cursor belongs to the search that made it
    "send only one of them",  # an id and a key that makes another one
    "is given twice",  # a file as source and as data, or as a zip and otherwise
    "also the folder of",  # a file named like the folder of another one
    "is also the id of tasks[",  # two tasks of a batch with one id
    "as a zip and as files; choose one",  # a zip and files in one form
    "has no filter",  # every filter of a change of many tasks is optional, but one is required
    "and a task has only one",  # a search for two values of one label
    "is for 'follow' only",  # an offset without `follow`
    "may be up to",  # more attempts than the operator allows
    "give the command to run, or a language",  # a command may be left out only with a language
    "is unknown; choose one of these",  # a language that is not in the table
    "no executor has",  # a language or root that no executor has
    "needs a language",  # a lone source file without a language
    "has no compile step",  # a compile step without a command, in a language without one
    "has no file",  # a language without a source file
    "not just one",  # several source files, none of which is the main one
    "which source has as well",  # a lone source file with the name of another one
    "source has a file of that name",  # the same
    "is for tasks with cases",  # a check without cases
    "is set by the problem",  # cases beside a problem
    "cannot be used with",  # a check beside an interactor, or what judged tasks do not have
    "is the name of an earlier case",  # two cases of one name
    "the check compares the output with it",  # a case without an answer
    "is not the group of any case",  # a rule for no group
    "`conclave problem list` shows",  # a problem that does not exist
    "as a list and as files; choose one",  # a list of cases in a form with cases
    "has no input beside it",  # an answer without its input
    "is a second answer beside",  # two answers of one case
    "the name of the case",  # a path that is too long for a name
)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Do not follow output: no task runs here, so the response would never end."""
    query = case.query
    if isinstance(query, dict) and str(query.get("follow")).lower() in ("true", ""):
        query["follow"] = "false"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Keep a failure, unless the request was refused for more than its form or the node is not ready."""
    if type(failure).__name__ == "ServerError":
        # A node under load may be unready for a moment, and 503 is how /readyz says so.
        return not (case.operation.path == "/readyz" and response.status_code == 503)
    if type(failure).__name__ != "RejectedPositiveData":
        return True
    # The answer to HEAD has no body.
    body = response.content.decode(errors="replace")
    return not any(words in body for words in NOT_OF_FORM)
