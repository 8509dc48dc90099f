"""A TFJob with a typo at job level and one in its pod template."""

MISSPELT_JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "typos"},
    "spec": {
        "runPolicy": {"suspend": True},
        "tfReplicaSpecs": {
            "Worker": {
                "replica": 2,
                "template": {
                    "spec": {
                        "containers": [{"name": "tensorflow", "image": "i", "comand": ["python"]}]
                    }
                },
            }
        },
    },
}
